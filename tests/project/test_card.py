"""The course as a graph, and the card that shows whose lessons are done."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

from drawing import draw
from kata.commands.card import course
from kata.progress import all_needs
from lessons import COURSE, FINALE
from tests.project.stage import play


def test_every_lesson_is_below_those_that_it_needs_directly_or_not():
    (shown,), titles = course().panels, draw(course(), "fx").svg
    reached: dict[str, set[str]] = {}
    for node in shown.nodes:
        reached[node.name] = set(node.inputs).union(*(reached[each] for each in node.inputs))
        assert reached[node.name] == set(all_needs(node.name))
        assert not any(reached[each] & {*node.inputs} for each in node.inputs)
        needs = f"<title>{node.name} needs {', '.join(node.inputs)}</title>"
        assert (needs in titles) is bool(node.inputs)
    assert [node.name for node in shown.nodes] == [lesson.name for lesson in COURSE]


def test_a_card_has_the_lessons_that_are_done_and_comes_after_the_finale(
    learner, tmp_path: Path, monkeypatch
):
    words = ("card", "--out", str(tmp_path / "card.html"))
    early = play(*words)
    assert (early.code, "after the finale" in early.screen) == (1, True)
    assert not (tmp_path / "card.html").exists()
    done = [lesson for lesson in COURSE if lesson.name in (*FINALE.needs, FINALE.name)]
    rows = [SimpleNamespace(lesson=lesson, is_done=True) for lesson in done]
    monkeypatch.setattr("kata.commands.card.standings", lambda: rows)
    played = play(*words)
    assert played.code == 0
    assert f"#done={','.join([*FINALE.needs, FINALE.name])}" in "".join(played.screen.split())
    assert (tmp_path / "card.html").read_text().count(">done</text>") == len(done)
