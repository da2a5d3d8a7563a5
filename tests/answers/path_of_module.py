"""Answers to ``path_of_module``."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator

from torch import nn
from torch.fx import Tracer

from tests.suite.answers import right, wrong


def foreign(mod: nn.Module, root: nn.Module) -> NameError:
    return NameError(f"{type(mod).__name__} is not below {type(root).__name__}")


# --- wrong: which module is meant ---------------------------------------------------------------


@wrong(
    fails="test_two_modules_of_one_class_are_told_apart",
    says="compared by class",
    never="the last name alone",
)
def modules_are_compared_by_class(lesson):
    """The first module of the same class is taken."""

    class PathOfModule:
        def path_of_module(self, mod):
            for path, module in self.root.named_modules():
                if type(module) is type(mod):
                    return path
            raise foreign(mod, self.root)

    lesson.PathOfModule = PathOfModule


@wrong(
    fails="test_a_foreign_module_is_refused",
    says="a module of the same class or text was taken for it",
)
def modules_are_compared_by_text(lesson):
    """What prints alike counts as the same module."""

    class PathOfModule:
        def path_of_module(self, mod):
            paths = {repr(module): path for path, module in self.root.named_modules()}
            if repr(mod) not in paths:
                raise foreign(mod, self.root)
            return paths[repr(mod)]

    lesson.PathOfModule = PathOfModule


@wrong(
    fails="test_a_module_that_equals_another_is_not_that_module",
    says="modules that are equal were taken for one: they were compared with `==`",
)
def modules_are_compared_with_equality(lesson):
    """``==`` asks the module's class, which may say yes to anything."""

    class PathOfModule:
        def path_of_module(self, mod):
            for path, module in self.root.named_modules():
                if module == mod:
                    return path
            raise foreign(mod, self.root)

    lesson.PathOfModule = PathOfModule


@wrong(fails="test_a_module_without_a_hash_has_a_path", says="unhashable type")
def a_dict_keyed_by_module(lesson):
    """A dict compares its keys with ``==`` and asks for their hash."""

    class PathOfModule:
        def path_of_module(self, mod):
            paths = {module: path for path, module in self.root.named_modules()}
            if mod not in paths:
                raise foreign(mod, self.root)
            return paths[mod]

    lesson.PathOfModule = PathOfModule


# --- wrong: where is searched -------------------------------------------------------------------


@wrong(
    fails="test_a_descendant_is_called_by_its_dotted_path",
    says="the search doesn't reach level 2 of the tree",
)
def only_the_direct_children_are_searched(lesson):
    """``named_children`` is one level deep."""

    class PathOfModule:
        def path_of_module(self, mod):
            if mod is self.root:
                return ""
            for name, child in self.root.named_children():
                if child is mod:
                    return name
            raise foreign(mod, self.root)

    lesson.PathOfModule = PathOfModule


@wrong(
    fails="test_the_root_is_the_empty_string",
    says="the root isn't among the modules that were looked through",
)
def the_root_is_not_searched(lesson):
    """The root is left out, as if it had no path."""

    class PathOfModule:
        def path_of_module(self, mod):
            for path, module in self.root.named_modules():
                if path and module is mod:
                    return path
            raise foreign(mod, self.root)

    lesson.PathOfModule = PathOfModule


@wrong(
    fails="test_a_shared_module_is_called_by_the_name_met_first_on_the_way_down",
    says="before all that is below an earlier one",
)
def the_tree_is_searched_breadth_first(lesson):
    """A queue finds the shallow name of a shared module before the deep one."""

    class PathOfModule:
        def path_of_module(self, mod):
            queue = deque([("", self.root)])
            while queue:
                path, module = queue.popleft()
                if module is mod:
                    return path
                for name, child in module.named_children():
                    queue.append((f"{path}.{name}".lstrip("."), child))
            raise foreign(mod, self.root)

    lesson.PathOfModule = PathOfModule


@wrong(fails="test_a_module_tree_with_a_cycle_ends", says="endless recursion")
def the_search_walks_round_a_cycle(lesson):
    """Nothing remembers where the search has been."""

    class PathOfModule:
        def path_of_module(self, mod):
            found = [path for path, module in walk("", self.root) if module is mod]
            if not found:
                raise foreign(mod, self.root)
            return found[0]

    def walk(path, module) -> Iterator[tuple[str, nn.Module]]:
        yield path, module
        for name, child in module.named_children():
            yield from walk(f"{path}.{name}".lstrip("."), child)

    lesson.PathOfModule = PathOfModule


@wrong(fails="test_the_search_is_your_own", says="handed on to torch's own method: `super()`")
def the_question_is_handed_on(lesson):
    """A right answer, and torch's: a second tracer is asked, which has the same root."""

    class PathOfModule:
        def path_of_module(self, mod):
            tracer = Tracer()
            tracer.root = self.root
            return tracer.path_of_module(mod)

    lesson.PathOfModule = PathOfModule


# --- wrong: what the path looks like ------------------------------------------------------------


@wrong(fails="test_a_child_is_called_by_its_name", says="a leading dot")
def the_path_begins_with_a_dot(lesson):
    """The name of the root, which is empty, is joined with a dot as well."""

    class PathOfModule:
        def path_of_module(self, mod):
            return find("", self.root, mod)

    def find(path, module, mod):
        if module is mod:
            return path
        below = (find(f"{path}.{name}", child, mod) for name, child in module.named_children())
        return next((found for found in below if found is not None), None)

    lesson.PathOfModule = PathOfModule


@wrong(fails="test_the_first_of_two_names_is_the_path", says="the last name overwrote the first")
def the_last_of_two_names_wins(lesson):
    """Each name of a shared module overwrites the one before."""

    class PathOfModule:
        def path_of_module(self, mod):
            modules = self.root.named_modules(remove_duplicate=False)
            return {id(module): path for path, module in modules}[id(mod)]

    lesson.PathOfModule = PathOfModule


# --- wrong: an index that goes stale ------------------------------------------------------------


@wrong(
    fails="test_the_path_follows_the_root",
    says="a path below the first root was the answer for another",
)
def the_index_is_built_once_and_for_all(lesson):
    """The first root that a tracer sees is taken for its only one."""

    class PathOfModule:
        def path_of_module(self, mod):
            if not hasattr(self, "index"):
                self.index = {id(module): path for path, module in self.root.named_modules()}
            return self.index[id(mod)]

    lesson.PathOfModule = PathOfModule


@wrong(
    fails="test_a_module_registered_later_is_found",
    says="only what was registered at the first call is known",
)
def the_index_never_learns(lesson):
    """A module that isn't in the index is refused without another look."""

    class PathOfModule:
        indexed = None

        def path_of_module(self, mod):
            if self.indexed is not self.root:
                self.indexed = self.root
                self.index = {id(module): path for path, module in self.root.named_modules()}
            if id(mod) not in self.index:
                raise foreign(mod, self.root)
            return self.index[id(mod)]

    lesson.PathOfModule = PathOfModule


@wrong(fails="test_a_module_that_was_removed_is_refused", says="a path that leads nowhere by now")
def the_index_never_forgets(lesson):
    """New modules are added to the index, and removed ones stay in it."""

    class PathOfModule:
        indexed = None

        def path_of_module(self, mod):
            if self.indexed is not self.root or id(mod) not in self.index:
                self.indexed = self.root
                self.index = {id(module): path for path, module in self.root.named_modules()}
            if id(mod) not in self.index:
                raise foreign(mod, self.root)
            return self.index[id(mod)]

    lesson.PathOfModule = PathOfModule


@wrong(fails="test_the_model_is_left_as_it_was", says="notes were left on the modules")
def the_path_is_written_on_the_modules_each_time(lesson):
    """Fresh notes are right ones, and they stay on the caller's model."""

    class PathOfModule:
        def path_of_module(self, mod):
            for path, module in self.root.named_modules():
                module._path = self.root, path
            root, path = getattr(mod, "_path", (None, ""))
            if root is not self.root:
                raise foreign(mod, self.root)
            return path

    lesson.PathOfModule = PathOfModule


# --- right --------------------------------------------------------------------------------------


@right(core_only=True)
def a_plain_scan(lesson):
    """A loop over ``named_modules`` for each call."""

    class PathOfModule:
        def path_of_module(self, mod):
            for path, module in self.root.named_modules():
                if module is mod:
                    return path
            raise foreign(mod, self.root)

    lesson.PathOfModule = PathOfModule


@right(core_only=True)
def a_recursive_search(lesson):
    """A function that looks in a module and then below it, and knows where it has been."""

    class PathOfModule:
        def path_of_module(self, mod):
            names = names_down_to(mod, self.root, visited=[])
            if names is None:
                raise foreign(mod, self.root)
            return ".".join(names)

    def names_down_to(mod, module, visited) -> list[str] | None:
        if module is mod:
            return []
        visited.append(id(module))
        for name, child in module._modules.items():
            if child is None or id(child) in visited:
                continue
            names = names_down_to(mod, child, visited)
            if names is not None:
                return [name, *names]
        return None

    lesson.PathOfModule = PathOfModule


@right(core_only=True)
def a_stack_of_modules(lesson):
    """An explicit stack in place of recursion; children are pushed in reverse."""

    class PathOfModule:
        def path_of_module(self, mod):
            visited, stack = set(), [("", self.root)]
            while stack:
                path, module = stack.pop()
                if module is mod:
                    return path
                if id(module) not in visited:
                    visited.add(id(module))
                    prefix = f"{path}." if path else ""
                    children = [*module.named_children()]
                    stack += [(prefix + name, child) for name, child in reversed(children)]
            raise foreign(mod, self.root)

    lesson.PathOfModule = PathOfModule


@right(core_only=True)
def a_dict_for_each_call(lesson):
    """A dict of all paths by identity that lives for one call; a function given to ``type``."""

    def path_of_module(self, mod):
        index = {id(module): path for path, module in self.root.named_modules()}
        if id(mod) not in index:
            raise foreign(mod, self.root)
        return index[id(mod)]

    lesson.PathOfModule = type("PathOfModule", (), {"path_of_module": path_of_module})


class ParentPointers:
    """Knows of each module its parent and its name there."""

    _above: dict[int, tuple[str, nn.Module | None]]
    _top = None

    def path_of_module(self, mod):
        for is_fresh in (False, True):
            if is_fresh or self._top is not self.root:
                self._top, self._above = self.root, {id(self.root): ("", None)}
                self._enter(self.root)
            names = self._names_up_from(mod)
            if names is not None:
                return ".".join(reversed(names))
        raise foreign(mod, self.root)

    def _enter(self, parent: nn.Module) -> None:
        for name, child in parent._modules.items():
            if child is not None and id(child) not in self._above:
                self._above[id(child)] = name, parent
                self._enter(child)

    def _names_up_from(self, mod: nn.Module) -> list[str] | None:
        names = []
        while mod is not self.root:
            name, parent = self._above.get(id(mod), ("", None))
            if parent is None or parent._modules.get(name) is not mod:
                return None
            names.append(name)
            mod = parent
        return names


@right
def pointers_to_the_parents(lesson):
    """Each module's parent and name; a path is read on the way up to the root."""
    lesson.PathOfModule = ParentPointers
