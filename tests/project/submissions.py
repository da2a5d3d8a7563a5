"""Submissions for tests of grading: what people might hand in, the honest and the other ones."""

from __future__ import annotations

import textwrap
from pathlib import Path

from kata.paths import CORES
from kata.stubs import stubs

# A whole path_of_module.py, right in the stretch as well: each path is checked against the tree.
STARRED = """
class PathOfModule:
    above, top = {}, None

    def path_of_module(self, mod):
        for is_fresh in (False, True):
            if is_fresh or self.top is not self.root:
                self.top, self.above = self.root, {id(self.root): ("", None)}
                self.enter(self.root)
            names = self.names_up_from(mod)
            if names is not None:
                return ".".join(reversed(names))
        raise NameError(f"{type(mod).__name__} is not below {type(self.root).__name__}")

    def enter(self, parent):
        for name, child in parent._modules.items():
            if child is not None and id(child) not in self.above:
                self.above[id(child)] = name, parent
                self.enter(child)

    def names_up_from(self, mod):
        names = []
        while mod is not self.root:
            name, parent = self.above.get(id(mod), ("", None))
            if parent is None or parent._modules.get(name) is not mod:
                return None
            names.append(name)
            mod = parent
        return names
"""


def hand_in(folder: Path, name: str, files: dict[str, str] | None = None) -> Path:
    """Write a submission on pristine stubs; return the folder of its lessons."""
    lessons = folder / name / "lessons"
    for path, text in {**stubs(), **(files or {})}.items():
        (lessons / path).parent.mkdir(parents=True, exist_ok=True)
        (lessons / path).write_text(text, encoding="utf-8")
    return lessons


def solved(*lessons: str) -> dict[str, str]:
    """The files of somebody who solved these lessons: the cores."""
    return {
        f"{lesson}.py": (CORES / f"{lesson}.py").read_text(encoding="utf-8") for lesson in lessons
    }


def answer(body: str, head: str = "") -> str:
    """A whole path_of_module.py whose method has this body."""
    method = "class PathOfModule:\n    def path_of_module(self, mod):\n"
    return head + method + textwrap.indent(f"{body}\n", " " * 8)


LOOPS_FOREVER = answer("while True: pass")
NAMES_THE_LAST = answer("""\
modules = self.root.named_modules(remove_duplicate=False)
return {id(module): path for path, module in modules}[id(mod)]""")
DELEGATES = (
    "import torch\n\n\nclass PathOfModule:\n    path_of_module = torch.fx.Tracer.path_of_module\n"
)
