"""The drawing: complete, in order, without overlaps, and readable."""

from __future__ import annotations

import json
import re
import xml.etree.ElementTree as ET
from dataclasses import replace
from itertools import combinations

import markdown
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pymdownx.superfences import SuperFencesException

from drawing import Link, Node, Panel, Picture, draw, table
from drawing.edges import LANE
from drawing.figure import STYLE, figure
from drawing.picture import OPCODES, Moment
from drawing.sizes import WIDTH, column_of
from kata.paths import ROOT
from tools.pages.graph_fence import fence
from tools.pictures.gallery import GALLERY

# The machine may be busy: no example is too slow.
some = settings(max_examples=40, deadline=None)
SVG = "{http://www.w3.org/2000/svg}"
# The `max-height` of a picture in pictures.css.
HEIGHT = 1080


@st.composite
def panels(draw_from) -> Panel:
    """Any list of nodes that use earlier ones, scattered over modules and partitions."""
    nodes: list[Node] = []
    for number in range(draw_from(st.integers(1, 14))):
        earlier = [node.name for node in nodes]
        inputs = draw_from(st.lists(st.sampled_from(earlier), max_size=3)) if earlier else []
        nodes.append(
            Node(
                name=f"{draw_from(st.sampled_from(['a', 'a_long_name', '<&>']))}{number}",
                op=draw_from(st.sampled_from(OPCODES)),
                target=draw_from(st.sampled_from(["", "torch.add"])),
                inputs=tuple(inputs),
                module=draw_from(st.sampled_from(["", "one", "one.inner", "two", "three"])),
                group=draw_from(st.sampled_from(["", "submod_0", "submod_1"])),
                mark=draw_from(st.sampled_from(["", "", "new"])),
            )
        )
    return Panel(tuple(nodes))


def picture_of(*panels: Panel) -> Picture:
    return Picture("A title", "A description.", panels)


def drawn(picture: Picture) -> ET.Element:
    return ET.fromstring(draw(picture, "fx-test").svg)


def texts(svg: ET.Element, kind: str) -> list[ET.Element]:
    return [text for text in svg.iter(f"{SVG}text") if text.get("class") == kind]


def edges(svg: ET.Element) -> dict[str, ET.Element]:
    """Each edge by the names it connects; twice the same one is an error."""
    found = [path for path in svg.iter(f"{SVG}path") if path.get("data-edge")]
    by_name = {path.get("data-edge"): path for path in found}
    assert len(by_name) == len(found)
    return by_name


def lane(path: ET.Element) -> tuple[float, float, float]:
    """Return where the vertical part of a lane is: x, its upper and its lower end."""
    shape = r"M\S+ ([\d.]+)H([\d.]+)q([\d.]+) .*?V([\d.]+)"
    start, out, corner, down = re.match(shape, path.get("d")).groups()
    return float(out) + float(corner), float(start), float(down) + float(corner)


@pytest.fixture(params=GALLERY)
def picture(request) -> Picture:
    return GALLERY[request.param]()


@some
@given(panels())
def test_every_node_and_edge_is_drawn_once_and_the_nodes_are_in_the_order_of_the_list(panel):
    svg = drawn(picture_of(panel))
    names = texts(svg, "name")
    assert [text.text for text in names] == [node.name for node in panel.nodes]
    heights = [float(text.get("y")) for text in names]
    assert heights == sorted(set(heights))
    wanted = {f"{name} {node.name}" for node in panel.nodes for name in node.inputs}
    assert set(edges(svg)) == wanted


@some
@given(panels())
def test_a_top_level_module_has_a_column_of_its_own(panel):
    x_of = [text.get("x") for text in texts(drawn(picture_of(panel)), "name")]
    pairs = list(zip(panel.nodes, x_of, strict=True))
    for (one, here), (other, there) in combinations(pairs, 2):
        assert (column_of(one) == column_of(other)) == (here == there)


@some
@given(panels())
def test_a_lane_keeps_its_distance_from_those_of_other_values_and_crosses_no_text(panel):
    svg = drawn(picture_of(panel))
    lanes = [
        (names.split()[0], *lane(path))
        for names, path in edges(svg).items()
        if path.get("class").startswith("lane")
    ]
    for (source, x, top, bottom), (other, x2, top2, bottom2) in combinations(lanes, 2):
        apart = bottom <= top2 or bottom2 <= top
        assert source == other or apart or abs(x - x2) >= LANE - 0.01
    for text in (*texts(svg, "name"), *texts(svg, "mark")):
        y, start = float(text.get("y")) - 4, float(text.get("x"))
        end = start + 12 * 0.61 * len(text.text)
        assert not [x for _, x, top, bottom in lanes if top <= y <= bottom and start < x < end]


def test_a_picture_fits_a_page_and_can_be_read_there(picture):
    drawing = draw(picture, "fx-test")
    sizes = re.findall(r'font-size="([\d.]+)"', drawing.svg)
    assert drawing.width <= WIDTH and drawing.height <= HEIGHT
    assert sizes and all(float(size) >= 10 for size in sizes)
    assert len(drawing.svg.encode()) <= 40_000


def test_names_do_not_run_out_of_the_picture(picture):
    drawing = draw(picture, "fx-test")
    for panel in ET.fromstring(drawing.svg).iter(f"{SVG}g"):
        if panel.get("class") == "panel":
            left = float(re.search(r"translate\(([\d.]+)", panel.get("transform"))[1])
            font = float(panel.get("font-size"))
            for text in panel.iter(f"{SVG}text"):
                width = len(text.text) * font * 0.602
                x = left + float(text.get("x")) - width * (text.get("class") == "column")
                assert 0 <= x and x + width <= drawing.width, text.text


def test_a_pointer_is_told_every_input_of_a_node_in_both_halves_of_a_folded_list():
    picture = GALLERY["resnet18"]()
    svg, (panel,) = drawn(picture), picture.panels
    told = {g.get("data-node"): g[0].text for g in svg.iter(f"{SVG}g")}
    for node in panel.nodes:
        assert all(each in told[node.name] for each in node.inputs), told[node.name]
    assert [each for each in svg.iter() if each.get("class") == "fold"]
    assert told["layer3_0_conv1"] == "call_module layer3_0_conv1 = layer3.0.conv1(layer2_1_relu_1)"


def test_the_legend_names_every_shape_in_the_picture(picture):
    svg = drawn(picture)
    legend = {text.text for g in svg.iter(f"{SVG}g") if g.get("class") == "legend" for text in g}
    used = {node.op for panel in picture.panels for node in panel.nodes}
    # Where the source is beside the graph, there is no legend: each step is told in words.
    assert not legend if picture.source else used <= legend


def test_every_picture_is_on_a_page():
    pages = "\n".join(page.read_text() for page in (ROOT / "docs").rglob("*.md"))
    shown = set(re.findall(r"^ *```fx-graph\n *(\w+)$", pages, re.MULTILINE))
    assert shown == set(GALLERY)


def page_with(text: str) -> str:
    custom = {"name": "fx-graph", "class": "fx-graph", "format": fence}
    return markdown.markdown(
        f"```fx-graph\n{text}\n```\n",
        extensions=["pymdownx.superfences"],
        extension_configs={"pymdownx.superfences": {"custom_fences": [custom]}},
    )


def test_a_fence_becomes_a_figure_with_its_caption_and_ids_of_its_own():
    html = page_with("inverted\ncaption: There & back.")
    assert ET.fromstring(html).tag == "figure"
    assert "<figcaption>There &amp; back.</figcaption>" in html
    html = page_with("inverted\n```\n\n```fx-graph\ninverted")
    ids = re.findall(r' id="([^"]+)"', html)
    assert len(ids) == len(set(ids)) > 4


@pytest.mark.parametrize("text", ["nonsense", "inverted\nsize: 3", ""])
def test_a_fence_with_a_mistake_stops_the_build(text):
    with pytest.raises(SuperFencesException, match="choose from: "):
        page_with(text)


def test_a_picture_that_cannot_be_made_stops_the_build_by_name(monkeypatch):
    monkeypatch.setitem(GALLERY, "inverted", lambda: 1 / 0)
    with pytest.raises(SuperFencesException, match=r"'inverted'.*ZeroDivisionError"):
        page_with("inverted")


def test_a_figure_needs_no_script_and_asks_for_nothing(picture):
    html = figure(picture, "fx-test")
    assert "<script" not in html
    assert not re.findall(r'(?:href|src|\son\w+)="', html)
    assert bool(ET.fromstring(html).findall("input[@type='radio']")) != picture.plays


def luminance(colour: str) -> float:
    digits = colour[1:] if len(colour) == 7 else "".join(2 * each for each in colour[1:])
    parts = [int(digits[i : i + 2], 16) / 255 for i in (0, 2, 4)]
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(one: str, other: str) -> float:
    dark, light = sorted((luminance(one), luminance(other)))
    return (light + 0.05) / (dark + 0.05)


@pytest.mark.parametrize("scheme", [0, 1, 2], ids=["light", "dark", "slate"])
def test_text_and_lines_stand_out_from_their_ground(scheme):
    blocks = re.findall(r"\{\s*(--fx-ink:.*?)\}", STYLE.read_text(), re.DOTALL)
    colours = dict(re.findall(r"--fx-(\w+): (#\w+);", blocks[scheme]))
    lines = ("line", "lane", "module", "function", "end", "attribute")
    wanted = {**dict.fromkeys(("ink", "soft", "mark"), 4.5), **dict.fromkeys(lines, 3)}
    for ground in ("paper", "ground", "frame"):
        for name, least in wanted.items():
            assert contrast(colours[name], colours[ground]) >= least, (name, ground)


X = Node("x", "placeholder", line=1)
RELU = Node("relu", "call_function", inputs=("x",), line=2)
CHANGE = Picture(
    "A title",
    "A description.",
    (Panel((X, RELU), "a graph"), Panel((X, replace(RELU, name="tanh")), "relu < tanh", line=2)),
    links=(Link(0, "relu", "tanh"),),
    source="def f(x):\n    return x < 1\n",
)


def test_without_a_script_a_change_shows_its_ends_and_tells_every_step():
    assert {text.text for text in texts(drawn(CHANGE), "head")} == {"before", "after"}
    html = ET.fromstring(f"<div>{table(CHANGE)}</div>")
    assert [item.text for item in html.iter("li")] == ["a graph", "relu < tanh"]
    assert [caption.text for caption in html.iter("caption")] == ["before", "after"]


def test_every_step_of_a_change_is_drawn_for_the_script_with_its_lines_and_what_became_what():
    html = figure(CHANGE, "fx")
    assert '<span data-line="2">    return x &lt; 1</span>' in html
    assert 'data-node="relu" data-line="2"' in html
    drawings = ET.fromstring(html).find("template")[0]
    assert [step.get("data-says") for step in drawings] == ["a graph", "relu < tanh"]
    assert [step.get("data-line") for step in drawings] == ["", "2"]
    assert [step.get("data-moves") for step in drawings] == ["[]", '[["relu", "tanh"]]']
    shown = [[g.get("data-node") for g in step.iter() if g.get("data-node")] for step in drawings]
    assert shown == [["x", "relu"], ["x", "tanh"]]


BARS = Panel(
    (
        Node("F0", "forward", group="stage 0", label="0", end=1),
        Node("B0", "backward", group="stage 0", label="0", start=1, end=3),
    ),
    "one stage",
)
TIMED = Picture("A title", "A description.", (BARS,), moments=(Moment(1, "F0"), Moment(3, "B0")))


def test_a_time_line_is_told_in_the_table_and_its_bars_are_as_long_as_they_take():
    assert "<td>1</td><td>3</td>" in table(TIMED)
    panel = next(g for g in drawn(TIMED).iter(f"{SVG}g") if g.get("class") == "panel")
    width = {rect.get("class"): float(rect.get("width")) for rect in panel.iter(f"{SVG}rect")}
    # Two pixels are left between two bars.
    assert width["backward"] + 2 == pytest.approx(2 * (width["forward"] + 2), rel=0.01)
    shares = json.loads(ET.fromstring(figure(TIMED, "fx")).get("data-moments"))
    assert shares == [[0.3333, "F0"], [1.0, "B0"]]
