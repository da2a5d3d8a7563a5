"""What every lesson's page has, and how the site leads to each page."""

from __future__ import annotations

import importlib.util
import re
import struct
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import jinja2
import pytest
import yaml

from kata.paths import CORES, ROOT, SOLUTIONS, STUBS, lesson_files
from lessons import LESSONS
from tests.project.stage import a_learner, play, python
from tools import previews
from tools.pages import api, home, performance
from tools.pages.differences import ROW, as_html, differences, differences_fence
from tools.pages.lesson import FRONT_MATTER, LessonPage
from tools.pages.plan import with_plans
from tools.pages.road import KINDS, signposted
from tools.pages.torch_places import UnknownPlaceError, installed, lines_of, linked, places_in

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
every_lesson = pytest.mark.parametrize("lesson", LESSONS, ids=lambda lesson: lesson.name)


@pytest.fixture
def page(lesson) -> LessonPage:
    return LessonPage.of(lesson.name)


@every_lesson
def test_a_page_has_the_lessons_title_and_all_sections_in_order(lesson, page):
    assert page.title == lesson.title
    assert list(page.sections) == SECTIONS


@every_lesson
def test_no_heading_is_empty_where_the_markdown_is_read(page):
    deeper = re.findall(r"^(#+) .*\n+(#+) ", page.text, re.MULTILINE)
    assert all(len(inner) > len(outer) for outer, inner in deeper)


@every_lesson
def test_a_page_opens_with_what_you_write(page):
    """In sixty words at most, and before that nothing but the question that it answers."""
    assert re.match(r"([^.?!]*\? )?You write ", re.sub(r"`[^`]*`", "name", page.goal)), page.goal
    assert len(page.goal.split()) <= 60


@every_lesson
def test_a_page_says_why_torch_needs_it_in_at_most_a_hundred_and_sixty_words(page):
    assert 60 <= len(page.sections["Why torch needs it"].split()) <= 160  # with its case


@every_lesson
def test_a_picture_comes_before_the_first_example(page):
    first, *examples = page.fences_of("Input and output")
    assert first.language == "fx-graph"
    assert examples


@every_lesson
def test_the_stretch_is_folded_and_comes_after_what_you_can_do_now(page):
    says, _, stretch = page.sections["What you can do now"].partition('??? note "Stretch: ')
    assert 10 <= len(says.split()) <= 60
    assert f"`pytest tests/stretch/test_{page.name}.py`" in stretch
    assert "stretch:**" not in page.text.lower()


@every_lesson
def test_a_page_gives_the_commands_and_what_the_first_one_says_before_you_start(lesson, page):
    with a_learner(lesson.name):
        screen = play("check", lesson.name).screen
    commands = f"```console\n$ kata check {lesson.name}\n{screen}$ kata watch {lesson.name}\n```"
    assert commands in signposted(page.text)


@every_lesson
def test_a_page_shows_the_files_of_its_lesson_folded_up(lesson, page):
    shown = signposted(f"# {lesson.title}\n{page.text}")
    labels = re.findall(r'^    \?\?\? \w+ "Show (.+)"$', shown, re.MULTILINE)
    files = [*lesson_files(CORES, lesson.name), *lesson_files(SOLUTIONS, lesson.name)]
    given = ["what is given"] * (ROOT / f"given/{lesson.name}.py").exists()
    shown_of_reference = (f"`{file.relative_to(CORES).as_posix()}`" for file in files)
    expected = ["the stub", *given, *shown_of_reference]
    assert labels[: len(expected)] == expected
    assert set(labels[len(expected) :]) <= {"`stretch/_paths.py`", "`stretch/_aliasing.py`"}


@every_lesson
def test_each_page_of_a_lesson_has_a_title_of_its_own_with_the_lessons_number(lesson):
    number = LESSONS.index(lesson) + 1
    titles = [title_of(f"{folder}/{lesson.name}.md") for folder in KINDS]
    assert titles == [
        f"# {number} · {lesson.title}",
        f"# Solution {number} · {lesson.title}",
        f"# API {number} · `{lesson.name}`",
    ]


def title_of(path: str) -> str:
    """The title of a page as the site shows it."""
    text = api.pages().get(path) or (ROOT / "docs" / path).read_text(encoding="utf-8")
    return signposted(FRONT_MATTER.sub("", text)).partition("\n")[0]


@every_lesson
def test_a_lesson_begins_with_what_it_takes_and_ends_with_the_way_on(lesson, page):
    lines = signposted(page.text).splitlines()
    assert f"of {len(LESSONS)} · {lesson.minutes} minutes" in lines[2]
    assert all(f"]({name}.md)" in lines[2] for name in lesson.needs)
    holes = (STUBS / f"{lesson.name}.py").read_text().count("raise NotImplementedError(")
    assert (
        f" · {holes} function{'s' * (holes > 1)} · [go to the exercise](#the-exercise)" in lines[2]
    )
    assert "solution" not in lines[2]
    assert f"](../solutions/{lesson.name}.md)" in lines[-1]


def test_a_name_in_torch_is_linked_to_its_lines_at_the_tag_that_is_pinned():
    row = "| `torch/fx/proxy.py` | `Proxy`, `Attribute.node` | both |"
    place = r"https://github.com/pytorch/pytorch/blob/v[\d.]+/torch/fx/proxy.py"
    lines = r"#L\d+-L\d+" if installed("torch") else ""
    name = r"\[`[\w.]+`\]\(" + place + lines + r"\)"
    assert re.fullmatch(rf"\| `torch/fx/proxy.py` \| {name}, {name} \| both \|", linked(row))


def test_a_name_that_the_pinned_torch_has_not_ends_the_build():
    if installed("torch") is None:
        pytest.skip("another torch than the pinned one")
    with pytest.raises(UnknownPlaceError, match="defines no Proxies"):
        linked("| `torch/fx/proxy.py` | `Proxies` | none |")


def test_every_page_describes_itself_and_no_other():
    descriptions = Counter(map(description_of, (ROOT / "docs").rglob("*.md")))
    assert descriptions.most_common(1)[0][1] == 1
    assert {text for text in descriptions if not 60 <= len(text) <= 220} == set()


def description_of(path: Path) -> str:
    """Return what a search engine shows of a page: from the settings above its title, or made."""
    found = FRONT_MATTER.match(path.read_text(encoding="utf-8"))
    meta = yaml.safe_load(found[0].strip().strip("-")) if found else {}
    src_uri = path.relative_to(ROOT / "docs").as_posix()
    api.on_page_markdown("", SimpleNamespace(file=SimpleNamespace(src_uri=src_uri), meta=meta))
    assert "description" in meta, f"{path} has no description"
    return str(meta["description"])


@every_lesson
def test_at_least_three_hints_are_numbered_and_closed(page):
    numbers = [re.match(r"Hint (\d+)(?: \(step \d+\))?: .", title) for title, _ in page.hints]
    assert [int(found[1]) for found in numbers] == list(range(1, len(numbers) + 1))
    assert len(numbers) >= 3
    assert all(len(text.split()) >= 20 for _, text in page.hints)


@every_lesson
def test_a_page_warns_of_traps(page):
    assert page.sections["Traps"].count("\n### ") >= 3


@every_lesson
def test_every_place_in_the_real_torch_exists_where_the_page_says(page):
    missing = [f"{file}: {name}" for file, name in page.places if name not in names_in(file)]
    assert len(page.places) >= 4
    assert not missing


def names_in(file: str) -> set[str]:
    """Return what a file of an installed package defines, without importing it."""
    spec = importlib.util.find_spec(file.partition("/")[0])
    return set(lines_of(Path(spec.origin).parents[1] / file))


def settings() -> dict:
    # mkdocs' own tags, for Python objects and paths, are of no matter here.
    yaml.SafeLoader.add_multi_constructor("tag:yaml.org,2002:python/name:", lambda *_: None)
    yaml.SafeLoader.add_constructor("!ENV", lambda loader, node: loader.construct_sequence(node))
    return yaml.safe_load((ROOT / "mkdocs.yml").read_text())


def navigation() -> list:
    return settings()["nav"]


@pytest.mark.parametrize(
    ("path", "group"),
    [("index.md", "home"), ("lessons/graph.md", "lessons"), ("setup.md", "pages")],
)
def test_a_published_page_says_what_a_link_to_it_shows(path: str, group: str):
    file = SimpleNamespace(src_uri=path)
    page = SimpleNamespace(file=file, canonical_url="https://a/b.html")
    page.title, page.meta = "A title", {"description": "What it is about."}
    head = head_of(page, SimpleNamespace(site_name="fx-kata", site_url="https://a/"))
    assert 'property="og:title" content="A title"' in head
    assert 'property="og:description" content="What it is about."' in head
    assert f'property="og:image" content="https://a/assets/preview-{group}.png"' in head
    assert 'name="theme-color"' in head and 'rel="apple-touch-icon"' in head


def head_of(page: SimpleNamespace, config: SimpleNamespace) -> str:
    """What our template adds to the head of a page."""
    text = (ROOT / "tools/pages/theme/main.html").read_text(encoding="utf-8")
    base = "{% block extrahead %}{% endblock %}"
    environment = jinja2.Environment(loader=jinja2.DictLoader({"base.html": base, "main": text}))
    environment.filters["url"] = lambda path: path
    return environment.get_template("main").render(page=page, config=config)


@pytest.mark.parametrize("group", previews.GROUPS)
def test_a_link_has_a_picture_of_at_most_sixty_kilobytes(group: str):
    picture = ROOT / f"docs/assets/preview-{group}.png"
    assert struct.unpack(">II", picture.read_bytes()[16:24]) == (1200, 630)
    assert picture.stat().st_size <= 60_000


def test_no_address_is_written_where_a_fork_has_another():
    assert settings()["site_url"] == ["SITE_URL", None]
    assert settings()["repo_url"] == ["REPO_URL", ""]
    assert settings()["edit_uri"] == ["EDIT_URI", ""]


def pages_in(entries: object) -> Iterator[str]:
    """The pages of a navigation, in order."""
    if isinstance(entries, str):
        yield entries
    else:
        for entry in entries.values() if isinstance(entries, dict) else entries:
            yield from pages_in(entry)


def test_every_page_is_reached_from_the_navigation_once():
    files = [str(path.relative_to(ROOT / "docs")) for path in (ROOT / "docs").rglob("*.md")]
    assert Counter(pages_in(navigation())) == Counter([*files, *api.pages()])


@pytest.mark.parametrize("folder", KINDS)
def test_the_navigation_lists_the_lessons_in_order(folder: str):
    wanted = [f"{folder}/{lesson.name}.md" for lesson in LESSONS]
    assert [page for page in pages_in(navigation()) if page in wanted] == wanted


def test_the_home_page_lists_the_lessons_in_order():
    rows = re.findall(
        r"- (\d+) · \[(.*?)\]\(lessons/(\w+)\.md\) <small>`\3` · (\d+) min", home.path()
    )
    assert rows == [
        (str(number), lesson.title, lesson.name, str(lesson.minutes))
        for number, lesson in enumerate(LESSONS, start=1)
    ]


@every_lesson
def test_the_line_below_a_title_begins_with_the_name_that_commands_and_files_have(lesson):
    for folder, kind in KINDS.items():
        below = signposted(f"{kind.heading.format(lesson)}\n").splitlines()[2]
        assert below.startswith(f"`{lesson.name}` · "), folder


def test_the_navigation_has_the_name_of_a_lesson_below_its_title():
    page = SimpleNamespace(file=SimpleNamespace(src_uri="lessons/graph.md"), meta={})
    api.on_page_markdown("", page)
    assert page.meta["subtitle"] == "graph"


@every_lesson
def test_a_solution_begins_with_what_all_of_it_does(lesson):
    text = (ROOT / f"docs/solutions/{lesson.name}.md").read_text(encoding="utf-8")
    opening = signposted(FRONT_MATTER.sub("", text)).partition("\n## ")[0]
    assert f"It shows how to {lesson.summary}." in opening


@every_lesson
def test_the_exercise_begins_with_a_mistake_its_cause_and_green(lesson, page):
    shown = signposted(page.text)
    assert f"## The exercise\n\n```strip\n{lesson.name}\n```\n" in shown


@every_lesson
def test_a_page_shows_the_first_function_to_write_unfolded(lesson, page):
    files = signposted(page.text).partition("### The files")[2]
    shown = files.partition("??? example")[0]
    assert shown.count("raise NotImplementedError(") == 1
    assert '"""' in shown


def test_the_home_page_promises_no_first_test_in_the_minutes_of_a_whole_lesson():
    assert home.facts().startswith("First green test in minutes · first lesson in ")


def test_the_home_page_leads_instructors_to_their_page_and_others_to_the_box():
    page = (ROOT / "docs/index.md").read_text()
    assert "](instructors.md)" in page
    assert page.index("recorded_gate") < page.index("<!-- box: link -->")


def test_ten_minutes_is_the_second_page():
    assert list(pages_in(navigation()))[:2] == ["index.md", "ten_minutes.md"]


def test_the_home_page_has_a_band_for_each_part_with_its_hours():
    heads = re.findall(r"^-   ### (.*)\n\n    about (\d+) hours", home.path(), re.MULTILINE)
    minutes = Counter[str]()
    for lesson in LESSONS:
        minutes[lesson.part.capitalize()] += lesson.minutes
    assert [(part, int(hours)) for part, hours in heads] == [
        (part, round(total / 60)) for part, total in minutes.items()
    ]
    assert set(home.BANDS) == {lesson.part for lesson in LESSONS}


def test_the_home_page_starts_with_a_clone_where_its_address_is_known(monkeypatch):
    monkeypatch.delenv("REPO_URL", raising=False)
    assert "git clone" not in home.start()
    assert home.start().startswith("In your copy of the repository:")
    monkeypatch.setenv("REPO_URL", "https://example.org/fx-kata")
    commands = [line for line in home.start().splitlines() if line.startswith("$ ")]
    assert commands == [
        "$ git clone https://example.org/fx-kata fx-kata",
        "$ cd fx-kata",
        "$ pip install nox",
        "$ nox -s kata",
    ]


def test_the_plans_of_a_workshop_go_by_the_minutes_of_the_lessons_and_end_before_six():
    page = with_plans((ROOT / "docs/instructors.md").read_text(encoding="utf-8"))
    rows = re.findall(r"\| (\d+) \| \[.*?\]\(lessons/\w+\.md\), `(\w+)`", page)
    minutes = {lesson.name: str(lesson.minutes) for lesson in LESSONS}
    assert rows == [(minutes[name], name) for _, name in rows] != []
    ends = re.findall(r"^\| (\d+):\d\d \|  \| end \|$", page, re.MULTILINE)
    assert len(ends) == 3
    assert all(int(hour) < 18 for hour in ends)
    assert "| 60 | lunch |" in page


def test_every_comment_of_a_page_becomes_its_piece():
    pages = "".join((ROOT / f"docs/{name}.md").read_text() for name in ("index", "performance"))
    assert set(re.findall(r"<!-- (\w+) -->", pages)) == set(home.PIECES)


def test_the_page_about_performance_begins_with_a_bar_for_each_lesson():
    rows = re.findall(r"<code>(\w+)</code>.*?width:(\d+)%.*?>(\d\.\d\d)<", performance.chart())
    assert {name for name, *_ in rows} == {lesson.name for lesson in LESSONS} | {"finale"}
    for _, width, ratio in rows:
        assert int(width) == pytest.approx(100 * float(ratio) / performance.HIGHEST, abs=1)
    page = home.with_pieces((ROOT / "docs/performance.md").read_text())
    assert page.index('class="bars"') < page.index("## How it is measured") < page.index("???")
    assert "missed**" not in page


def test_the_chain_shows_what_the_first_command_prints():
    page = (ROOT / "docs/chain.md").read_text(encoding="utf-8")
    with a_learner():
        assert play("check", "chain").screen in page


def test_what_the_build_imports_of_ours_needs_no_torch():
    modules = "tools.pages." + ", tools.pages.".join(
        ("api", "differences", "extension", "quoting", "graph_fence")
    )
    without = "import sys; sys.modules.update(torch=None, torchvision=None)"
    done = python("-c", f"{without}; import {modules}")
    assert done.returncode == 0, done.stderr


# --- the pages about the solutions: every difference from torch, and where torch does it

# File, name, and a word or two about what it does.
TOLD = re.compile(r"\| `[\w/.]+` \| `[\w.]+` \| .*[a-z]{3}.* \|")


def section(lesson: str, title: str) -> str:
    page = (ROOT / f"docs/solutions/{lesson}.md").read_text(encoding="utf-8")
    return page.partition(f"\n## {title}\n")[2].partition("\n## ")[0]


@every_lesson
def test_a_page_shows_the_differences_that_its_lesson_has(lesson):
    fence = f"```differences\n{lesson.name}\n```"
    shown = fence in section(lesson.name, "Where ours differs")
    assert shown == any(differences(lesson.name))


def test_a_difference_is_a_row_of_two_sentences():
    table = differences_fence("path_of_module", "differences", "", {}, None)
    ours, torchs = next(differences("path_of_module"))
    assert ROW.format(as_html(ours), as_html(torchs)) in table
    assert "<code>" in table


@every_lesson
def test_every_counterpart_exists_in_torch(lesson):
    table = section(lesson.name, "In torch")
    places = list(places_in(table))
    assert len(places) >= 3
    assert not [f"{file}: {name}" for file, name in places if name not in names_in(file)]
    assert all(TOLD.fullmatch(row) for row in table.splitlines() if row.startswith("| `"))
