"""Answers to ``path_of_module``."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from types import ModuleType

from torch import nn

from tests.suite.answers import on, right, wrong

Search = Callable[[nn.Module, nn.Module], Iterable[str]]


def searched_by(lesson: ModuleType, search: Search) -> None:
    """Let a function look for a module below the root: the first path that it yields counts."""

    @on(lesson.PathOfModule)
    def path_of_module(self, mod):
        for path in search(self.root, mod):
            return path
        raise foreign(mod, self.root)


def foreign(mod: nn.Module, root: nn.Module) -> NameError:
    return NameError(f"{type(mod).__name__} is not below {type(root).__name__}")


@wrong(
    "test_two_modules_of_one_class_are_told_apart",
    says="compared by class",
    never="the last name alone",
)
def modules_are_compared_by_class(lesson):
    """Takes the first module of the same class."""

    def search(root, mod):
        return (path for path, module in root.named_modules() if type(module) is type(mod))

    searched_by(lesson, search)


@wrong(
    "test_two_modules_of_one_class_are_told_apart",
    says="compare with `is`, or index by `id(module)`",
)
def modules_are_compared_with_equality(lesson):
    """Uses ``==``, which asks the module's class, and that may say yes to anything."""

    def search(root, mod):
        return (path for path, module in root.named_modules() if module == mod)

    searched_by(lesson, search)


@wrong(
    "test_a_descendant_is_called_by_its_dotted_path",
    says="the search doesn't reach level 2 of the tree",
)
def only_the_direct_children_are_searched(lesson):
    """Uses ``named_children``, which is one level deep."""

    def search(root, mod):
        return (path for path, module in [("", root), *root.named_children()] if module is mod)

    searched_by(lesson, search)


@wrong(
    "test_a_shared_module_is_called_by_the_name_met_first_on_the_way_down",
    says="before all that is below an earlier one",
)
def the_tree_is_searched_breadth_first(lesson):
    """Uses a queue, which finds the shallow name of a shared module before the deep one."""

    def search(root, mod):
        queue = deque([("", root)])
        while queue:
            path, module = queue.popleft()
            if module is mod:
                yield path
            for name, child in module.named_children():
                queue.append((f"{path}.{name}".lstrip("."), child))

    searched_by(lesson, search)


@wrong("test_a_module_tree_with_a_cycle_ends", says="infinite recursion")
def the_search_walks_round_a_cycle(lesson):
    """Doesn't remember where the search has been."""

    def search(module, mod, path=""):
        if module is mod:
            yield path
        for name, child in module.named_children():
            yield from search(child, mod, f"{path}.{name}".lstrip("."))

    searched_by(lesson, search)


@wrong("test_a_descendant_is_called_by_its_dotted_path", says="a leading dot")
def the_path_begins_with_a_dot(lesson):
    """Joins the name of the root, which is empty, with a dot as well."""

    def search(module, mod, path=""):
        if module is mod:
            yield path
        for name, child in module.named_children():
            yield from search(child, mod, f"{path}.{name}")

    searched_by(lesson, search)


@wrong(
    "test_a_shared_module_is_called_by_the_name_met_first_on_the_way_down",
    says="the last of three names was taken",
)
def the_last_of_two_names_wins(lesson):
    """Lets each name of a shared module overwrite the one before."""

    def search(root, mod):
        modules = root.named_modules(remove_duplicate=False)
        return reversed([path for path, module in modules if module is mod])

    searched_by(lesson, search)


@wrong(
    "test_the_path_follows_the_root", says="a path below the first root was the answer for another"
)
def the_index_is_built_once_and_for_all(lesson):
    """Takes the first root that a tracer sees for its only one."""

    @on(lesson.PathOfModule)
    def path_of_module(self, mod):
        if not hasattr(self, "index"):
            self.index = {id(module): path for path, module in self.root.named_modules()}
        return self.index[id(mod)]


@wrong("test_a_module_that_was_removed_is_refused", says="a path that leads nowhere by now")
def the_index_never_forgets(lesson):
    """Adds new modules to the index, and keeps removed ones."""

    @on(lesson)
    class PathOfModule:
        indexed = None

        def path_of_module(self, mod):
            if self.indexed is not self.root or id(mod) not in self.index:
                self.indexed = self.root
                self.index = {id(module): path for path, module in self.root.named_modules()}
            if id(mod) not in self.index:
                raise foreign(mod, self.root)
            return self.index[id(mod)]


@wrong("test_the_model_is_left_as_it_was", says="notes were left on the modules")
def the_path_is_written_on_the_modules_each_time(lesson):
    """Writes fresh notes, which are right, and leaves them on the caller's model."""

    def search(root, mod):
        for path, module in root.named_modules():
            module._path = root, path
        owner, path = getattr(mod, "_path", (None, ""))
        return [path] if owner is root else []

    searched_by(lesson, search)


@wrong("test_a_foreign_module_is_refused", says="NameError")
def what_is_not_found_has_the_empty_path(lesson):
    """Begins with the empty path, which is that of the root, and keeps it if nothing is found."""

    @on(lesson.PathOfModule)
    def path_of_module(self, mod):
        return next((path for path, each in self.root.named_modules() if each is mod), "")


@wrong("test_a_name_without_a_module_is_skipped", says="`register_module(name, None)` is allowed")
def every_name_has_a_module(lesson):
    """Goes down to every child, and one may be ``None``."""

    def search(root, mod, path=""):
        for name, child in root._modules.items():
            below = f"{path}.{name}".lstrip(".")
            yield from [below] if child is mod else search(child, mod, below)

    searched_by(lesson, lambda root, mod: [""] if mod is root else search(root, mod))


# --- right ----------------------------------------------------------------------------------------


@right(core_only=True)
def a_plain_scan(lesson):
    """Loops over ``named_modules`` in each call."""

    def search(root, mod):
        return (path for path, module in root.named_modules() if module is mod)

    searched_by(lesson, search)


@right(core_only=True)
def a_recursive_search(lesson):
    """Looks in a module and then below it, and knows where it has been."""

    def search(root, mod):
        return search_below("", root, mod, visited=set())

    def search_below(path, module, mod, visited):
        if module is mod:
            yield path
        visited.add(id(module))
        for name, child in module._modules.items():
            if child is not None and id(child) not in visited:
                yield from search_below(f"{path}.{name}".lstrip("."), child, mod, visited)

    searched_by(lesson, search)


@right(core_only=True)
def a_dict_for_each_call(lesson):
    """Makes a dict of all paths by identity that lives for one call."""

    @on(lesson.PathOfModule)
    def path_of_module(self, mod):
        paths = {id(module): path for path, module in self.root.named_modules()}
        if id(mod) not in paths:
            raise foreign(mod, self.root)
        return paths[id(mod)]
