"""Unlike the core: modules that can be copied, stored and edited, and that show their code."""

from __future__ import annotations

import copy
import linecache
import weakref
from itertools import accumulate, count
from pathlib import Path
from textwrap import indent
from traceback import walk_tb
from types import ModuleType
from typing import TYPE_CHECKING, Any

import torch
from torch import nn

from ... import code as core
from ...code import PythonCode
from ..graph.storing import fill, state_of
from .codegen import codegen_of
from .writing import ReadableWriter, python_code

if TYPE_CHECKING:
    import os
    from collections.abc import Callable

    from ...graph import Graph

NUMBERS = count()
STORED_META = ("is_wrapped", "stack_trace")  # the rest may be impossible to pickle

# The module of a package that `to_folder` writes.
FOLDER_MODULE = """from pathlib import Path

{imports}

FOLDER = Path(__file__).parent
# the objects that the code below uses by these names
globals().update(torch.load(FOLDER / "globals.pt", weights_only=False))

{code}

class {name}(torch.nn.Module):
    def __init__(self):
        super().__init__()
        vars(self).update(torch.load(FOLDER / "state.pt", weights_only=False))

    forward = forward
"""


def compiled(generated: PythonCode, co_fields: dict[str, Any] | None = None) -> Callable[..., Any]:
    """Return the function ``forward``, whose source tracebacks and debuggers can show.

    Args:
        generated: The source and its globals.
        co_fields: The place that a debugger shows for the function, as in ``graph._co_fields``:
            ``co_filename``, ``co_name`` and ``co_firstlineno``, or only the first of them.
    """
    filename = f"<generated code {next(NUMBERS)}>"
    match co_fields or {}:
        case {"co_filename": file, "co_firstlineno": line, "co_name": name}:
            filename = f"{filename} from {file}:{line} in {name}"
        case {"co_filename": file}:
            filename = file
    namespace = dict(generated.globals)
    exec(compile(generated.src, filename, "exec", dont_inherit=True), namespace)
    linecache.cache[filename] = len(generated.src), None, generated.src.splitlines(True), filename
    return namespace["forward"]


class GraphModule(core.GraphModule):
    """The core's module, with the other methods of torch's. In torch: ``torch.fx.GraphModule``."""

    # Otherwise `torch.jit.script` would compile the property.
    __jit_unused_properties__ = ("graph",)

    def __init__(
        self, root: nn.Module | dict[str, Any], graph: Graph, class_name: str = "GraphModule"
    ) -> None:
        if not isinstance(root, nn.Module | dict):
            raise RuntimeError(  # noqa: TRY004  # as in torch
                f"root {root!r} has no targets: pass a module, or a dict by target"
            )
        targets = [node.target for node in graph.nodes if node.op in ("get_attr", "call_module")]
        for name in {target.partition(".")[0] for target in targets}:
            if name == "code" or hasattr(type(self), name):
                raise AttributeError(
                    f"a graph module has an attribute `{name}` of its own, which would hide the "
                    f"root's: rename that, in the model and in the graph"
                )
        super().__init__(root, graph, class_name)
        if isinstance(root, nn.Module):
            self.training = root.training

    @property
    def graph(self) -> Graph:
        """The graph that the module runs."""
        return self._graph

    @graph.setter
    def graph(self, graph: Graph) -> None:
        """Keep a graph, and compile it.

        Raises:
            TypeError: It isn't a graph; the module keeps the one that it has.
        """
        if not hasattr(graph, "nodes"):
            raise TypeError(f"{graph!r} is not a graph")
        core.GraphModule.graph.fset(self, graph)  # type: ignore[attr-defined]

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
        """Run the module; if a generated line raises an error, a note shows the line."""
        try:
            return super().__call__(*args, **kwargs)
        except Exception as error:
            *_, (frame, number) = walk_tb(error.__traceback__)
            if frame.f_code is type(self).forward.__code__:
                line = self.code.splitlines()[number - 1].strip()
                error.add_note(f"line {number} of the generated code: {line}")
            raise

    def __str__(self) -> str:
        return f"{super().__str__()}\n{self.code}\n# print_readable() shows shapes as well"

    def print_readable(
        self,
        print_output: bool = True,
        include_stride: bool = False,
        include_device: bool = False,
        colored: bool = False,
        **layout: bool,
    ) -> str:
        """Print the code of this module and of graph modules inside, with shapes; return the text.

        The shapes are those of ``node.meta["val"]``, ``"tensor_meta"`` or ``"example_value"``.
        The text is plain: ``colored`` and torch's other options change nothing.
        """
        text = readable(self, self._get_name(), include_stride, include_device)
        if print_output:
            print(text)
        return text

    def add_submodule(self, target: str, m: nn.Module) -> bool:
        """Put a module at a path, and create its parents; return whether that was possible."""
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
        """Delete modules that no node names. A module that is named is kept with its parts."""
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

        In torch: the same, but a layer such as ``Linear`` is written as its ``repr``, and functions
        that aren't torch's are missing.
        """
        write_folder(folder, module_name, python_code(self._graph), state_without_graph(self))

    def __copy__(self) -> GraphModule:
        """Return another module with the same graph and the same state."""
        result = blank(type(self).__bases__[0], type(self).__name__)
        for name, value in vars(self).items():
            vars(result)[name] = copy.copy(value) if isinstance(value, dict) else value
        result.recompile()
        return result

    def __reduce__(self) -> tuple[Any, ...]:
        """Store the state and the nodes."""
        graph = type(self.graph), state_of(self.graph, STORED_META)
        state = state_without_graph(self)
        return restored, (type(self).__bases__[0], type(self).__name__, state, *graph)


class LateForward:
    """The ``forward`` of a class without code: reading it generates the code.

    A call reads it from the module, and a tracer from the class.
    """

    def __get__(self, module: Any, owner: type[LazyGraphModule]) -> Any:
        if owner._late_module is None:  # it has no module yet
            return self
        owner._late_module().real_recompile()
        return (owner if module is None else module).forward  # now the code


class LazyGraphModule(GraphModule):
    """A graph module that generates its code when you read ``code`` or call the module.

    In torch: ``torch.fx._lazy_graph_module._LazyGraphModule``.

    >>> from torch.fx import symbolic_trace
    >>> module = LazyGraphModule({}, symbolic_trace(lambda x: x + 1).graph)
    >>> "forward" in vars(type(module)), module(2), "forward" in vars(type(module))
    (False, 3, True)
    """

    forward: Any = LateForward()
    # A reference to the module of this class; each module has a class of its own.
    _late_module: Callable[[], Any] | None = None

    def recompile(self) -> None:  # type: ignore[override]
        """Forget the code; it is generated when it is needed."""
        type(self)._late_module = weakref.ref(self)
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


# Functions, not methods: a child of the model may be called `state` or `readable`.


def readable(module: GraphModule, name: str, *details: bool) -> str:
    """Return the text of ``print_readable``, with a name for the class."""
    writer = ReadableWriter(module.graph, *details)
    body = "\n    ".join(writer.lines()) or "pass"
    parts = [f"{writer.signature()}\n    {body}"]
    for child, inner in module.named_children():
        if isinstance(inner, GraphModule):
            parts.append(readable(inner, child, *details))
    body = indent("\n\n".join(parts), "    ")
    return f"class {name}(torch.nn.Module):\n{body}"


def state_without_graph(module: GraphModule) -> dict[str, Any]:
    """Return a module's attributes without the graph."""
    return {name: value for name, value in vars(module).items() if name != "_graph"}


def blank(base: type[GraphModule], name: str) -> GraphModule:
    """Return a module with a class of its own and without state."""
    own: type[GraphModule] = type(name, (base,), {})
    return own.__new__(own)


def restored(
    base: type[GraphModule], name: str, state: dict[str, Any], graph_type: Any, graph: Any
) -> GraphModule:
    """Return a module that was pickled."""
    module = blank(base, name)
    vars(module).update(state, _graph=graph_type())
    fill(module.graph, graph)
    module.recompile()
    return module


def write_folder(
    folder: str | os.PathLike[str], class_name: str, generated: PythonCode, state: dict[str, Any]
) -> None:
    """Write a package from which a class with this code and this state can be imported."""
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    modules = {
        name: value.__name__
        for name, value in generated.globals.items()
        if isinstance(value, ModuleType)
    }
    values = {name: value for name, value in generated.globals.items() if name not in modules}
    torch.save(values, folder / "globals.pt")
    torch.save(state, folder / "state.pt")
    imports = "\n".join(f"import {module} as {name}" for name, module in modules.items())
    text = FOLDER_MODULE.format(imports=imports, code=generated.src.strip(), name=class_name)
    (folder / "module.py").write_text(text, encoding="utf-8")
    (folder / "__init__.py").write_text(f"from .module import {class_name}\n", encoding="utf-8")
