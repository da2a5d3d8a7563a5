"""What a report says, whatever people are called."""

from __future__ import annotations

import re
from html.parser import HTMLParser

from kata.grading.report import Failure, Grade, Person, State, Summary, to_html
from kata.judging import Count
from kata.lesson_names import NAMES
from kata.paths import ROOT

HOSTILE = "<script>alert(1)</script>\"'&"
FAILURE = Failure(f"a test {HOSTILE}", f"a cause {HOSTILE}", f"</pre>{HOSTILE}")


def a_report(*names: str) -> Summary:
    red = Grade("path_of_module", State.RED, Count(3, 21), Count(0, 5), FAILURE, (HOSTILE,))
    grades = tuple(red if each == red.lesson else Grade(each, State.TODO) for each in NAMES)
    people = tuple(Person(name, grades, (HOSTILE,), (HOSTILE,)) for name in names)
    return Summary(people, "2030-01-02T03:04:05+00:00", 12.0)


def test_each_state_is_described():
    text = (ROOT / "docs" / "grading.md").read_text(encoding="utf-8")
    assert all(f"| `{state}` | " in text for state in State)


def test_the_most_frequent_diagnosis_comes_first():
    report = a_report("Ada", "Grace")
    assert report.diagnoses("path_of_module") == [(FAILURE.diagnosis, 2)]
    assert report.diagnoses("tracer") == []


class Page(HTMLParser):
    """What a browser would make of the page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.words: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.words.append(data)

    def all(self, tag: str) -> list[dict[str, str | None]]:
        return [attributes for name, attributes in self.tags if name == tag]


def test_the_page_shows_hostile_text_as_text():
    page = Page(to_html(a_report(HOSTILE)))
    assert page.all("script") == []
    assert sum(HOSTILE in words for words in page.words) >= 6
    assert not [attributes for _, attributes in page.tags if any(k[:2] == "on" for k in attributes)]


def test_the_page_asks_for_nothing_from_elsewhere():
    text = to_html(a_report("Ada"))
    page = Page(text)
    links = [each["href"] for each in page.all("a")]
    targets = {attributes.get("id") for _, attributes in page.tags}
    assert all(link and link[0] == "#" and link[1:] in targets for link in links)
    assert not {"img", "link", "script", "iframe", "object"} & {name for name, _ in page.tags}
    assert "url(" not in text and "@import" not in text
    assert "default-src 'none'" in text


def test_each_cell_of_the_map_says_its_state_in_words():
    text = to_html(a_report("Ada", "Grace"))
    cells = re.findall(r'<td class="([\w-]+)">(.*?)</td>', text, re.DOTALL)
    assert len(cells) == 2 * len(NAMES)
    assert all(state in re.sub("<.*?>", "", content).split() for state, content in cells)
    scopes = [each.get("scope") for each in Page(text).all("th")]
    assert scopes.count("col") == 1 + len(NAMES)
    assert scopes.count("row") == 2
