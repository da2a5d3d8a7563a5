"""Unlike the core: modules that can be copied, stored and changed, and that show their code."""

from __future__ import annotations

import copy
import linecache
import weakref
from itertools import accumulate, count
from operator import attrgetter
from textwrap import indent
from traceback import walk_tb
from typing import TYPE_CHECKING, Any

from torch import nn

from ... import code as core
from ...code import PythonCode, install
from .codegen import codegen_of
from .folders import write_folder
from .storing import StoredGraph, loaded, stored
from .writing import ReadableWriter, python_code

if TYPE_CHECKING:
    import os
    from collections.abc import Callable

    from ...graph import Graph

NUMBERS = count()
# What takes the place of a source that is no longer needed: a file that doesn't exist, and that the
# next traceback removes. Removed at once, it could be missing while someone goes through the cache.
NO_SOURCE: tuple[int, float, list[str], str] = 0, 0.0, [], "<no source>"


def compiled(generated: PythonCode, co_fields: dict[str, Any] | None = None) -> Callable[..., Any]:
    """Return the function, whose source Python finds as long as the function is there.

    Args:
        generated: The source and its globals.
        co_fields: Where a debugger shows the function: ``co_filename``, ``co_name`` and
            ``co_firstlineno``, as in ``graph._co_fields``. The file name alone is taken as it is.
    """
    filename = f"<generated code {next(NUMBERS)}>"
    match co_fields or {}:
        case {"co_filename": file, "co_firstlineno": line, "co_name": name}:
            filename = f"{filename} from {file}:{line} in {name}"
        case {"co_filename": file}:
            filename = file
    namespace = dict(generated.globals)
    exec(compile(generated.src, filename, "exec", dont_inherit=True), namespace)
    function = namespace.pop("forward")
    linecache.cache[filename] = len(generated.src), None, generated.src.splitlines(True), filename
    weakref.finalize(function, linecache.cache.__setitem__, filename, NO_SOURCE)
    return function


class GraphModule(core.GraphModule):
    """The core's module, for people who copy it, store it, change it and look for its errors.

    In torch: ``torch.fx.GraphModule``.

    >>> import pickle
    >>> from torch.fx import symbolic_trace
    >>> module = GraphModule({}, symbolic_trace(lambda x: x + 1).graph)
    >>> pickle.loads(pickle.dumps(module))(2)
    3
    """

    # `torch.jit.script` would compile it.
    __jit_unused_properties__ = ("graph",)

    def __init__(
        self, root: nn.Module | dict[str, Any], graph: Graph, class_name: str = "GraphModule"
    ) -> None:
        targets = [node.target for node in graph.nodes if node.op in ("get_attr", "call_module")]
        root = module_of(root, targets)
        super().__init__(root, graph, class_name)
        self.training = root.training
        self.meta: dict[str, Any] = {}
        for target in targets:
            path, _, name = target.rpartition(".")
            owner = attrgetter(path)(root) if path else root
            if name in getattr(owner, "_non_persistent_buffers_set", ()):
                self.get_submodule(path)._non_persistent_buffers_set.add(name)

    @property
    def graph(self) -> Graph:
        """The graph; a new one is compiled at once."""
        return self._graph

    @graph.setter
    def graph(self, graph: Graph) -> None:
        is_first = not hasattr(self, "_graph")  # that one is compiled by `__init__`
        self._graph = graph
        if not is_first:
            self.recompile()

    def recompile(self) -> PythonCode:
        """Generate the code again, and that of graph modules inside."""
        self._graph.owning_module = self  # type: ignore[attr-defined]
        info = getattr(codegen_of(self._graph), "pytree_info", None)
        if info is not None:
            self._in_spec, self._out_spec = info.in_spec, info.out_spec
        generated = python_code(self._graph)
        self.code = generated.src
        fields = getattr(self._graph, "_co_fields", None)
        type(self).forward = compiled(generated, fields)  # type: ignore[assignment]
        for module in self.children():
            if isinstance(module, GraphModule):
                module.recompile()
        return generated

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Run the module; an error of one of its lines says which."""
        try:
            return super().__call__(*args, **kwargs)
        except Exception as error:
            *_, (frame, number) = walk_tb(error.__traceback__)
            if frame.f_code is type(self).forward.__code__:
                error.add_note(f"line {number} of the generated code:\n{self.excerpt(number)}")
            raise

    def excerpt(self, number: int) -> str:
        """Return a line of the code between its neighbours, with a mark."""
        numbered = enumerate(self.code.splitlines(), start=1)
        near = [(each, line) for each, line in numbered if abs(each - number) <= 1]
        return "\n".join(f"{'>' if each == number else ' '} {line}" for each, line in near)

    def __str__(self) -> str:
        return f"{super().__str__()}\n{self.code}\n# print_readable() shows shapes as well"

    def print_readable(
        self,
        print_output: bool = True,
        include_stride: bool = False,
        include_device: bool = False,
    ) -> str:
        """Print the code inside its class, with shapes, and that of graph modules inside.

        Args:
            print_output: Whether to print it.
            include_stride: Whether strides are shown, too.
            include_device: Whether devices are.

        Returns:
            The text. What a node's ``meta`` has under ``val``, ``tensor_meta`` or
            ``example_value`` says the shape.
        """
        text = self.readable(self._get_name(), include_stride, include_device)
        if print_output:
            print(text)
        return text

    def readable(self, name: str, *details: bool) -> str:
        """Return what ``print_readable`` prints, with a name for the class."""
        writer = ReadableWriter(self.graph, *details)
        body = "\n    ".join(writer.lines()) or "pass"
        parts = [f"{writer.signature()}\n    {body}"]
        for child, module in self.named_children():
            if isinstance(module, GraphModule):
                parts.append(module.readable(child, *details))
        body = indent("\n\n".join(parts), "    ")
        return f"class {name}(torch.nn.Module):\n{body}"

    def add_submodule(self, target: str, m: nn.Module) -> bool:
        """Put a module at a path, and empty ones on the way; return whether that is possible."""
        *path, name = target.split(".")
        parent: nn.Module = self
        for part in path:
            if not hasattr(parent, part):
                parent.add_module(part, nn.Module())
            parent = getattr(parent, part)
            if not isinstance(parent, nn.Module):
                return False
        parent.add_module(name, m)
        return True

    def delete_submodule(self, target: str) -> bool:
        """Delete the module at a path; return whether there was one."""
        path, _, name = target.rpartition(".")
        try:
            self.get_submodule(target)
        except AttributeError:
            return False
        if name:
            delattr(self.get_submodule(path), name)
        return bool(name)

    def delete_all_unused_submodules(self) -> None:
        """Delete each module that the graph names neither directly nor through a submodule.

        A module that a node names is used, and so is all that is inside it.
        """
        modules = dict(self.named_modules(remove_duplicate=False))
        used: set[str] = set()
        for node in self.graph.nodes:
            if node.op in ("get_attr", "call_module"):
                used.update(accumulate(node.target.split("."), "{}.{}".format))
                used.update(each for each in modules if each.startswith(f"{node.target}."))
        for target in modules:
            if target not in used:
                self.delete_submodule(target)

    def to_folder(self, folder: str | os.PathLike[str], module_name: str = "FxModule") -> None:
        """Write a package for ``from folder import FxModule``: a class that needs no graph.

        Args:
            folder: Where to write it. It may be moved afterwards.
            module_name: The name of the class.

        Raises:
            AttributeError, pickle.PicklingError: An object that the module uses can't be pickled,
                such as a lambda.

        In torch: a layer such as ``Linear`` is written as its ``repr``, and functions of other
        modules than torch are missing.
        """
        write_folder(folder, module_name, python_code(self._graph), self.state())

    def state(self) -> dict[str, Any]:
        """Return the attributes, but for the graph."""
        return {name: value for name, value in vars(self).items() if name != "_graph"}

    def __deepcopy__(self, memo: dict[int, Any]) -> GraphModule:
        """Copy everything, the graph as well, which is not traced again."""
        result = memo[id(self)] = blank(type(self).__bases__[0], type(self).__name__)
        for name, value in vars(self).items():
            vars(result)[name] = copy.deepcopy(value, memo)
        result.recompile()
        return result

    def __copy__(self) -> GraphModule:
        """Return another module with the same graph and the same state."""
        result = blank(type(self).__bases__[0], type(self).__name__)
        for name, value in vars(self).items():
            vars(result)[name] = copy.copy(value) if isinstance(value, dict) else value
        result.recompile()
        return result

    def __reduce__(self) -> tuple[Any, ...]:
        """Store the state and the nodes."""
        kind = type(self).__bases__[0], type(self).__name__
        return restored, (*kind, self.state(), stored(self.graph))


class LateForward:
    """The ``forward`` of a class that has no code yet: reading it generates the code.

    Calls read it, and so does a tracer, which takes it from the class.
    """

    def __get__(self, module: Any, owner: type[LazyGraphModule]) -> Any:
        if owner.module is None:  # nothing was made of it
            return self
        owner.module().real_recompile()
        return (owner if module is None else module).forward  # now the code


class LazyGraphModule(GraphModule):
    """A graph module that generates its code when that is asked for, or the module is called.

    In torch: ``torch.fx._lazy_graph_module._LazyGraphModule``.

    >>> from torch.fx import symbolic_trace
    >>> module = LazyGraphModule({}, symbolic_trace(lambda x: x + 1).graph)
    >>> "forward" in vars(type(module)), module(2), "forward" in vars(type(module))
    (False, 3, True)
    """

    forward: Any = LateForward()
    # A reference to the module of which this is the class; each module has one of its own.
    module: Callable[[], Any] | None = None

    def recompile(self) -> None:  # type: ignore[override]
        """Forget the code; it is generated when it is needed."""
        type(self).module = weakref.ref(self)
        if "forward" in vars(type(self)):
            del type(self).forward

    def real_recompile(self) -> None:
        """Generate the code, unless it is there."""
        if "forward" not in vars(type(self)):
            super().recompile()

    @property
    def code(self) -> str:
        """The source of ``forward``."""
        self.real_recompile()
        return vars(self)["code"]

    @code.setter
    def code(self, code: str) -> None:
        vars(self)["code"] = code


def module_of(root: Any, targets: list[str]) -> nn.Module:
    """Return a root as a module: a dict becomes one, modules before what is inside them.

    Raises:
        RuntimeError: It is something else, or a dict that lacks a target.
    """
    if isinstance(root, nn.Module):
        return root
    if not isinstance(root, dict):
        name = type(root).__name__
        raise RuntimeError(f"a root is a module or a dict, not a {name}")  # noqa: TRY004  # torch's
    missing = [target for target in targets if target not in root]
    if missing:
        raise RuntimeError(f"the graph needs {missing[0]!r}, but it was not provided in `root`")
    module = nn.Module()
    for target in sorted(targets):
        install(module, target, root[target])
    return module


def blank(base: type[GraphModule], name: str) -> GraphModule:
    """Return a module of a class of its own, which has no state yet."""
    own: type[GraphModule] = type(name, (base,), {})
    return own.__new__(own)


def restored(
    base: type[GraphModule], name: str, state: dict[str, Any], graph: StoredGraph
) -> GraphModule:
    """Return a module that was pickled."""
    module = blank(base, name)
    vars(module).update(state, _graph=loaded(graph))
    module.recompile()
    return module
