"""A failure names a cause only where the assertion has seen it to be so."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from torch import nn
from torch.fx import Tracer

from kata.paths import ROOT
from tests.suite import equal, holds, is_value, noting, refuses, same_graph
from tests.suite.answers import judge_folder
from tests.suite.expect import MismatchError

PAIRS = [
    (is_value(1), "it was one"),
    (lambda got: got.missing, "unread"),
    (lambda got: got > 1, "many"),
    (False, "never"),
]


@pytest.mark.parametrize(("got", "cause"), [(1, "it was one"), (2, "many"), (0, "")])
def test_the_first_cause_that_was_seen_is_printed(got: int, cause: str):
    with pytest.raises(MismatchError) as failure:
        equal(got, 5, cause=PAIRS, hint="h")
    with pytest.raises(MismatchError) as sentence:
        holds(got == 5, "five", got=got, cause=PAIRS)
    for message in map(str, (failure.value, sentence.value)):
        assert ("likely cause: " + cause in message) if cause else ("likely cause" not in message)


def refusal(cause, error: Exception | None) -> str:
    with pytest.raises(MismatchError) as failure, refuses(TypeError, "x", cause=cause):
        if error:
            raise error
    return str(failure.value)


def test_a_cause_of_no_error_is_not_the_cause_of_an_error_without_the_words():
    assert "likely cause: it went in" in refusal("it went in", None)
    assert "it went in" not in refusal("it went in", TypeError("y"))
    seen = (lambda error: "y" in str(error), "y was asked")
    assert "y was asked" in refusal(seen, TypeError("y"))
    assert "y was asked" not in refusal(seen, None)


def annotated(x: int):
    return x


@pytest.mark.parametrize(
    ("ours", "theirs", "words"),
    [
        (lambda x: torch.add(x, 1), lambda x: torch.add(x, 1, alpha=2), "arguments were dropped"),
        (lambda x: torch.sub(x, 1), lambda x: torch.sub(x, other=1), "became positional"),
        (lambda x: x.neg().abs(), lambda x: x.abs().neg(), "in another order"),
        (lambda input: input.neg(), nn.Sequential(nn.ReLU()), "no node calls the module `0`"),
        (lambda x: x, annotated, "the annotation was not carried over"),
        (lambda x: x.neg(), lambda x: x.abs(), ""),
        (lambda x: x.neg(), lambda x: x.neg().abs(), ""),
        (lambda y: y, lambda x: x, ""),
    ],
)
def test_two_graphs_show_some_causes_and_of_others_nothing_is_said(ours, theirs, words: str):
    with pytest.raises(MismatchError) as failure:
        same_graph(Tracer().trace(ours), Tracer().trace(theirs))
    message = " ".join(str(failure.value).split())
    assert words in message
    assert bool(words) == ("likely cause" in message)


SUITES = [*ROOT.glob("tests/test_*.py"), *ROOT.glob("tests/stretch/test_*.py")]
WITHOUT_PREDICATE = ("refuses", "noting")  # they look at the error themselves


@pytest.mark.parametrize("file", SUITES, ids=lambda file: str(file.relative_to(ROOT / "tests")))
def test_every_cause_of_a_comparison_has_a_predicate(file: Path):
    assert not list(bare_causes(ast.parse(file.read_text(encoding="utf-8"))))


def bare_causes(tree: ast.Module) -> Iterator[int]:
    """The lines in which a comparison is given a cause that nothing has to show."""
    named = {}
    for node in sorted(ast.walk(tree), key=lambda node: getattr(node, "lineno", 0)):
        if isinstance(node, ast.Assign):
            named[ast.unparse(node.targets[0])] = node.value
        elif isinstance(node, ast.Call) and getattr(node.func, "id", "") not in WITHOUT_PREDICATE:
            causes = [each.value for each in node.keywords if each.arg == "cause"]
            values = [named.get(ast.unparse(each), each) for each in causes]
            if any(isinstance(each, ast.Constant | ast.JoinedStr | ast.BinOp) for each in values):
                yield node.lineno


@pytest.mark.parametrize("owner", ["lessons.tracer", "torch.fx"])
def test_of_an_error_in_the_learners_own_line_a_test_supposes_no_cause(owner: str):
    namespace: dict = {"__name__": owner}
    exec("def fail():\n    raise TypeError('mine')", namespace)
    with pytest.raises(TypeError) as caught, noting(cause="supposed"):
        namespace["fail"]()
    assert hasattr(caught.value, "__notes__") is (owner == "torch.fx")
    with pytest.raises(TypeError) as caught, noting(cause=(is_mine, "seen")):
        namespace["fail"]()
    assert caught.value.__notes__ == ["likely cause: seen"]


def is_mine(error: Exception) -> bool:
    return str(error) == "mine"


def test_a_patch_that_is_left_is_the_first_failure(lessons: Path):
    """Otherwise the tests after it would fail for causes that are none."""
    (lessons / "path_of_module.py").write_text(
        "from torch import nn\n\n\nclass PathOfModule:\n"
        "    def path_of_module(self, mod):\n"
        "        nn.Module.__call__ = lambda *args: None\n"
        "        return ''\n"
    )
    verdict = judge_folder(lessons, "tests/test_path_of_module.py", "-x")
    (text,) = verdict.texts()
    assert "`nn.Module.__call__` is still patched" in text


def test_a_helper_that_two_classes_define_is_named(lessons: Path):
    """The classes become one object, which has one of the two."""
    for name, cls in (("path_of_module", "PathOfModule"), ("create_arg", "CreateArg")):
        with (lessons / f"{name}.py").open("a") as file:
            file.write(f"\n{cls}._read = lambda self: self\n")
    file = lessons / "tracer.py"
    file.write_text(file.read_text().replace("raise NotImplementedError", "raise KeyError"))
    text = judge_folder(lessons, "tests/test_tracer.py", "-x").texts()[0]
    assert "PathOfModule and CreateArg both define `_read`" in " ".join(text.split())
