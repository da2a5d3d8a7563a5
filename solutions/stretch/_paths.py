"""Paths below a root, found by identity: what the first, second and fourth lesson stand on."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable

    from torch import nn


def join(owner: str, name: str) -> str:
    """Return the path of ``name`` inside ``owner``.

    >>> join("layer1.0", "conv2"), join("", "layer1")
    ('layer1.0.conv2', 'layer1')
    """
    return f"{owner}.{name}" if owner else name


class Place:
    """Where a tree of modules holds a value: under a name, in a module that has a place too.

    Args:
        value: what is there.
        path: the dotted path that leads there from the root.
        name: the last part of the path.
        owner: the place of the module that holds it; ``None`` for the root, which nobody holds.
    """

    __slots__ = ("name", "owner", "path", "value")

    def __init__(self, value: Any, path: str, name: str = "", owner: Place | None = None) -> None:
        self.value = value
        self.path = path
        self.name = name
        self.owner = owner

    def is_current(self, table: str) -> bool:
        """Return whether the value is still there, and its owners are all where they were.

        Args:
            table: The attribute of the owner in which the name is looked up.
        """
        place, owner = self, self.owner
        while owner is not None:
            if getattr(owner.value, table).get(place.name) is not place.value:
                return False
            place, owner, table = owner, owner.owner, "_modules"
        return True


def module_places(root: nn.Module) -> dict[int, Place]:
    """Return the first place of every module of the tree, by the module's ``id``.

    Parents come before children, in the order of registration. Modules are told apart by identity,
    so a class with its own ``__eq__``, hashable or not, does no harm.

    In torch this is ``nn.Module.named_modules``, which keeps a set of modules and thus compares
    with ``==``.

    >>> from torch import nn
    >>> shared = nn.ReLU()
    >>> places = module_places(nn.Sequential(shared, nn.Sequential(shared)))
    >>> [place.path for place in places.values()]
    ['', '0', '1']
    """
    places: dict[int, Place] = {}
    ahead = [Place(root, "")]  # a stack, and no recursion: a tree may be deeper than Python's
    while ahead:
        place = ahead.pop()
        if id(place.value) not in places:
            places[id(place.value)] = place
            for name, child in reversed(place.value._modules.items()):
                if child is not None:
                    ahead.append(Place(child, join(place.path, name), name, place))
    return places


class PathIndex:
    """The paths below ``root`` of what its modules hold, found by identity in constant time.

    A module keeps what it holds in tables: ``_modules``, ``_parameters``, ``_buffers``. Each
    table of the tree is read once, on first use. A path is handed out only after a look at what
    is there now, so neither a value nor a module above it that was moved can lead astray. What
    isn't found is looked for once more in a fresh reading: it may have been registered since.

    In torch, ``Tracer.submodule_paths`` is such an index for modules. For parameters and buffers
    torch scans the whole model each time.

    >>> from torch import nn
    >>> model = nn.Sequential(nn.Linear(2, 2))
    >>> index = PathIndex(model)
    >>> index.path_of(model[0].bias, "_parameters")
    '0.bias'
    >>> relu = model.append(nn.ReLU())[1]
    >>> index.path_of(relu, "_modules")
    '1'
    """

    def __init__(self, root: nn.Module) -> None:
        self.root = root
        self._places: dict[str, dict[int, Place]] = {}

    def path_of(self, value: object, table: str) -> str | None:
        """Return the first path at which the tree holds ``value``, or ``None``.

        Args:
            value: The module, parameter or buffer to find. Only this very object will do.
            table: Where modules keep such values: ``"_modules"``, ``"_parameters"`` or
                ``"_buffers"``.
        """
        place = self._places[table].get(id(value)) if table in self._places else None
        if place is None or place.value is not value or not place.is_current(table):
            place = self._read(table).get(id(value))
        return None if place is None else place.path

    def value_at(self, path: str, table: str) -> object:
        """Return what the tree holds at ``path`` right now, or ``None`` if that place is empty.

        Args:
            path: A dotted path below the root.
            table: The attribute of the owning module in which the last name is looked up.
        """
        if not path:
            return self.root if table == "_modules" else None
        *owners, name = path.split(".")
        module: Any = self.root
        for owner in owners:
            module = module._modules.get(owner)
            if module is None:
                return None
        return getattr(module, table).get(name)

    def _read(self, table: str) -> dict[int, Place]:
        places = module_places(self.root)
        if table != "_modules":
            places = _places_of_values(places.values(), table)
        self._places[table] = places
        return places


def _places_of_values(owners: Iterable[Place], table: str) -> dict[int, Place]:
    places: dict[int, Place] = {}
    for owner in owners:
        for name, value in getattr(owner.value, table).items():
            if id(value) not in places:
                places[id(value)] = Place(value, join(owner.path, name), name, owner)
    return places


def path_index(tracer: Any) -> PathIndex:
    """Return the index of the tracer's present root, made anew when the root has changed.

    >>> from types import SimpleNamespace
    >>> from torch import nn
    >>> tracer = SimpleNamespace(root=nn.Module())
    >>> path_index(tracer) is path_index(tracer)
    True
    """
    index = getattr(tracer, "_path_index", None)
    if index is None or index.root is not tracer.root:
        index = tracer._path_index = PathIndex(tracer.root)
    return index
