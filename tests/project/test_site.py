"""What every lesson's page has, and how the site leads to each page."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import jinja2
import pytest
import yaml

from kata.paths import CORES, ROOT, STRETCHES, STUBS, lesson_files
from lessons import LESSONS
from tests.project.stage import a_learner, play
from tools.pages import api, home, performance
from tools.pages.differences import ROW, as_html, differences, differences_fence
from tools.pages.lesson import FRONT_MATTER, LessonPage
from tools.pages.plan import with_plans
from tools.pages.road import KINDS, signposted
from tools.pages.torch_places import UnknownPlaceError, linked

SECTIONS = [
    "Why torch needs it",
    "Input and output",
    "The exercise",
    "Hints",
    "What you can do now",
    "Traps",
    "What torch does differently, and why",
    "In the real torch",
]
GITHUB = "https://github.com/"
every_lesson = pytest.mark.parametrize("lesson", LESSONS, ids=lambda lesson: lesson.name)


@pytest.fixture
def page(lesson) -> LessonPage:
    return LessonPage.of(lesson.name)


@every_lesson
def test_a_page_has_the_lessons_title_and_all_sections_in_order_and_none_is_empty(lesson, page):
    assert page.title == lesson.title
    assert list(page.sections) == SECTIONS
    pairs = re.findall(r"^(#+) .*\n+(#+) ", page.text, re.MULTILINE)
    assert all(len(inner) > len(outer) for outer, inner in pairs)


@every_lesson
def test_a_page_has_a_picture_before_its_first_example_three_traps_and_four_places_in_torch(page):
    first, *examples = page.fences_of("Input and output")
    assert first.language == "fx-graph"
    assert examples
    assert page.sections["Traps"].count("\n### ") >= 3
    assert linked(page.sections["In the real torch"]).count(f"]({GITHUB}") >= 4


@every_lesson
def test_a_page_says_in_few_words_what_you_write_and_why_torch_needs_it(page):
    """Before that, there is nothing but the question that it answers."""
    assert re.match(r"([^.?!]*\? )?You write ", re.sub(r"`[^`]*`", "name", page.goal)), page.goal
    assert len(page.goal.split()) <= 60
    assert 60 <= len(page.sections["Why torch needs it"].split()) <= 160  # with its case


@every_lesson
def test_the_stretch_is_folded_and_comes_after_what_you_can_do_now(page):
    says, _, stretch = page.sections["What you can do now"].partition('??? note "Stretch: ')
    assert 10 <= len(says.split()) <= 60
    assert stretch
    assert f"`pytest tests/stretch/test_{page.name}.py` runs its tests.\n" in signposted(page.text)


@every_lesson
def test_a_page_gives_the_commands_and_what_the_first_one_says_before_you_start(lesson, page):
    with a_learner(lesson.name):
        screen = play("check", lesson.name).screen
    commands = f"```console\n$ kata check {lesson.name}\n{screen}$ kata watch {lesson.name}\n```"
    assert commands in signposted(page.text)


@every_lesson
def test_the_exercise_has_a_mistake_the_first_function_and_all_files(lesson, page):
    shown = signposted(f"# {lesson.title}\n{page.text}")
    assert f"## The exercise\n\n```strip\n{lesson.name}\n```\n" in shown
    unfolded = shown.partition("### The files")[2].partition("??? example")[0]
    assert unfolded.count("raise NotImplementedError(") == 1
    labels = re.findall(r'^    \?\?\? \w+ "Show (.+)"$', shown, re.MULTILINE)
    files = [*lesson_files(CORES, lesson.name), *lesson_files(STRETCHES, lesson.name)]
    given = ["what is given"] * (ROOT / f"given/{lesson.name}.py").exists()
    reference = (f"`{file.relative_to(CORES).as_posix()}`" for file in files)
    expected = ["the stub", *given, *reference]
    assert labels[: len(expected)] == expected
    assert set(labels[len(expected) :]) <= {"`stretch/_paths.py`", "`stretch/_aliasing.py`"}


@every_lesson
def test_each_page_of_a_lesson_begins_with_its_number_title_and_name(lesson):
    number = LESSONS.index(lesson) + 1
    titles = {
        "lessons": f"# {number} · {lesson.title}",
        "solutions": f"# Solution {number} · {lesson.title}",
        "api": f"# API {number} · `{lesson.name}`",
    }
    for folder in KINDS:
        path = f"{folder}/{lesson.name}.md"
        text = api.pages().get(path) or (ROOT / "docs" / path).read_text(encoding="utf-8")
        title, _, below, *_ = signposted(FRONT_MATTER.sub("", text)).splitlines()
        assert title == titles[folder]
        assert below.startswith(f"`{lesson.name}` · ")


@every_lesson
def test_a_lesson_begins_with_what_it_takes_and_ends_with_the_way_on(lesson, page):
    lines = signposted(page.text).splitlines()
    assert f"of {len(LESSONS)} · {lesson.minutes} minutes" in lines[2]
    assert all(f"]({name}.md)" in lines[2] for name in lesson.needs)
    holes = (STUBS / f"{lesson.name}.py").read_text().count("raise NotImplementedError(")
    assert f" · {holes} function{'s' * (holes > 1)} · [go to the exercise]" in lines[2]
    assert f"](../solutions/{lesson.name}.md)" in lines[-1]


def test_a_name_in_torch_is_linked_to_its_lines_at_the_tag_that_is_pinned():
    row = "| `torch/fx/proxy.py` | `Proxy`, `Attribute.node` | both |"
    place = GITHUB + r"pytorch/pytorch/blob/v[\d.]+/torch/fx/proxy.py#L\d+-L\d+"
    name = r"\[`[\w.]+`\]\(" + place + r"\)"
    assert re.fullmatch(rf"\| `torch/fx/proxy.py` \| {name}, {name} \| both \|", linked(row))
    with pytest.raises(UnknownPlaceError, match="defines no Proxies"):
        linked(row.replace("`Proxy`", "`Proxies`"))


def test_every_page_describes_itself_and_no_other():
    descriptions = Counter(map(description_of, (ROOT / "docs").rglob("*.md")))
    assert descriptions.most_common(1)[0][1] == 1
    assert {text for text in descriptions if not 60 <= len(text) <= 220} == set()


def description_of(path: Path) -> str:
    """Return what a search engine shows of a page: from the settings above its title, or made."""
    text = path.read_text(encoding="utf-8")
    found = FRONT_MATTER.match(text)
    meta = yaml.safe_load(found[0].strip().strip("-")) if found else {}
    src_uri = path.relative_to(ROOT / "docs").as_posix()
    api.on_page_markdown(text, SimpleNamespace(file=SimpleNamespace(src_uri=src_uri), meta=meta))
    assert "description" in meta, f"{path} has no description"
    return str(meta["description"])


def settings() -> dict:
    # mkdocs' own tags, for Python objects and paths, don't matter here.
    yaml.SafeLoader.add_multi_constructor("tag:yaml.org,2002:python/name:", lambda *_: None)
    yaml.SafeLoader.add_constructor("!ENV", lambda loader, node: loader.construct_sequence(node))
    return yaml.safe_load((ROOT / "mkdocs.yml").read_text())


def test_a_published_page_says_what_a_link_to_it_shows():
    page = SimpleNamespace(title="A title", canonical_url="https://a/b.html")
    page.meta = {"description": "What it is about."}
    templates = {
        "base.html": "{% block extrahead %}{% endblock %}",
        "main": (ROOT / "tools/pages/theme/main.html").read_text(encoding="utf-8"),
    }
    environment = jinja2.Environment(loader=jinja2.DictLoader(templates))
    environment.filters["url"] = lambda path: path
    config = SimpleNamespace(site_name="fx-kata", site_url="https://a/")
    head = environment.get_template("main").render(page=page, config=config)
    assert 'property="og:title" content="A title"' in head
    assert 'property="og:description" content="What it is about."' in head
    assert 'property="og:image" content="https://a/assets/preview.png"' in head
    assert (ROOT / "docs/assets/preview.png").exists()


def pages_in(entries: object) -> Iterator[str]:
    """The pages of a navigation, in order."""
    if isinstance(entries, str):
        yield entries
    else:
        for entry in entries.values() if isinstance(entries, dict) else entries:
            yield from pages_in(entry)


def test_every_page_is_in_the_navigation_once_and_the_lessons_are_in_order():
    files = [str(path.relative_to(ROOT / "docs")) for path in (ROOT / "docs").rglob("*.md")]
    shown = list(pages_in(api.with_lessons(settings()["nav"])))
    assert Counter(shown) == Counter([*files, *api.pages()])
    for folder in KINDS:
        wanted = [f"{folder}/{lesson.name}.md" for lesson in LESSONS]
        assert [page for page in shown if page in wanted] == wanted


def test_the_home_page_lists_the_lessons_in_order_and_the_hours_of_each_part():
    rows = re.findall(
        r"- (\d+) · \[(.*?)\]\(lessons/(\w+)\.md\) <small>`\3` · (\d+) min", home.path()
    )
    assert rows == [
        (str(number), lesson.title, lesson.name, str(lesson.minutes))
        for number, lesson in enumerate(LESSONS, start=1)
    ]
    hours = re.findall(r"^-   ### .*\n\n    about (\d+) hours", home.path(), re.MULTILINE)
    assert f"about {sum(map(int, hours))} hours" in home.facts()


def test_the_home_page_starts_with_a_clone_where_its_address_is_known(monkeypatch):
    monkeypatch.delenv("REPO_URL", raising=False)
    assert "git clone" not in home.start()
    assert home.start().startswith("In your copy of the repository:")
    monkeypatch.setenv("REPO_URL", "https://example.org/fx-kata")
    assert "$ git clone https://example.org/fx-kata fx-kata\n$ cd fx-kata\n" in home.start()


def test_the_plans_of_a_workshop_go_by_the_minutes_of_the_lessons_and_end_before_six():
    page = with_plans((ROOT / "docs/instructors.md").read_text(encoding="utf-8"))
    rows = re.findall(r"\| (\d+) \| \[.*?\]\(lessons/\w+\.md\), `(\w+)`", page)
    minutes = {lesson.name: str(lesson.minutes) for lesson in LESSONS}
    assert rows == [(minutes[name], name) for _, name in rows] != []
    ends = re.findall(r"^\| (\d+):\d\d \|  \| end \|$", page, re.MULTILINE)
    assert len(ends) == 3
    assert all(int(hour) < 18 for hour in ends)


def test_steps_in_a_plan_take_the_minutes_that_the_page_of_the_lesson_says():
    plans = (ROOT / "docs/instructors.md").read_text(encoding="utf-8")
    pattern = r"^(\d+) \| \[.*?\]\(lessons/(\w+)\.md\), steps (\d) to (\d)"
    ((minutes, lesson, first, last),) = re.findall(pattern, plans, re.MULTILINE)
    page = (ROOT / f"docs/lessons/{lesson}.md").read_text(encoding="utf-8")
    steps = dict(re.findall(r"^\| (\d) \| .* \| (\d+) \|$", page, re.MULTILINE))
    assert int(minutes) == sum(int(steps[str(step)]) for step in range(int(first), int(last) + 1))


def test_every_comment_of_a_page_becomes_its_piece():
    pages = "".join((ROOT / f"docs/{name}.md").read_text() for name in ("index", "performance"))
    assert set(re.findall(r"<!-- (\w+) -->", pages)) == set(home.PIECES)


ABOUT = re.compile(r"^(?:- `(\w+)`|(\*\*Traces))(.*)$", re.MULTILINE)


def test_the_ratios_in_the_text_about_performance_are_in_the_tables():
    text, tables = (ROOT / "docs/performance.md").read_text(encoding="utf-8"), performance.tables()
    found = [
        (lesson or "tracer", ratio)
        for lesson, _, words in ABOUT.findall(text.partition("## What the stretch buys")[2])
        for ratio in re.findall(r"\b\d\.\d\d\b", words)
    ]
    assert len(found) >= 10
    assert not [(lesson, ratio) for lesson, ratio in found if f"| {ratio} " not in tables[lesson]]


def test_the_page_about_performance_begins_with_a_bar_for_each_lesson():
    rows = re.findall(r"<code>(\w+)</code>.*?width:\d+%", performance.chart())
    assert set(rows) == {lesson.name for lesson in LESSONS} | {"finale"}


def test_the_chain_shows_what_the_first_command_prints():
    page = (ROOT / "docs/chain.md").read_text(encoding="utf-8")
    with a_learner():
        assert play("check", "chain").screen in page


# --- the pages about the solutions: every difference from torch, and where torch does it


def section(lesson: str, title: str) -> str:
    page = (ROOT / f"docs/solutions/{lesson}.md").read_text(encoding="utf-8")
    return signposted(page).partition(f"\n## {title}\n")[2].partition("\n## ")[0]


def test_a_difference_is_a_row_of_two_sentences():
    table = differences_fence("path_of_module", "differences", "", {}, None)
    ours, torchs = next(differences("path_of_module"))
    assert ROW.format(as_html(ours), as_html(torchs)) in table
    assert "<code>" in table


@every_lesson
def test_every_counterpart_exists_in_torch(lesson):
    table = section(lesson.name, "In torch")
    assert linked(table).count(f"]({GITHUB}") >= 3
    # File, name, and a word or two about what it does.
    told = re.compile(r"\| `[\w/.]+` \| `[\w.]+` \| .*[a-z]{3}.* \|")
    assert all(told.fullmatch(row) for row in table.splitlines() if row.startswith("| `"))
