"""The plots of docs/performance.md: inline SVG that takes the page's own colour for its text.

The files are the same for the same numbers: no date, no random ids. Each has a title and a
description for those who don't see it.
"""

from __future__ import annotations

import io
import re
import statistics
from html import escape

import matplotlib as mpl
from matplotlib.figure import Figure

from benchmarks.measure import Growth, Result

# Text and lines are drawn in this colour, which the page's own replaces; it occurs nowhere else.
INK = "#010203"
# Both can be told from a white and from a dark page, and from each other without colours too.
OURS = {"color": "#2a8ac9", "marker": "o", "label": "ours"}
TORCH = {"color": "#d9632a", "marker": "s", "linestyle": "--", "label": "torch"}
STYLE = {
    "svg.fonttype": "none",
    "font.family": "sans-serif",
    "font.size": 11,
    "axes.spines.top": False,
    "axes.spines.right": False,
} | dict.fromkeys(
    ("text.color", "axes.labelcolor", "axes.edgecolor", "xtick.color", "ytick.color"), INK
)


def growth_plot(name: str, growth: Growth) -> str:
    """Time over size on logarithmic scales."""
    with mpl.rc_context(STYLE | {"svg.hashsalt": name}):
        figure = Figure(figsize=(6, 3.4), layout="constrained")
        axes = figure.subplots()
        sizes = [result.size for result in growth.sizes]
        axes.loglog(sizes, [statistics.median(each.torch) for each in growth.sizes], **TORCH)
        axes.loglog(sizes, [statistics.median(each.ours) for each in growth.sizes], **OURS)
        axes.set_xticks(sizes, [str(size) for size in sizes])
        axes.minorticks_off()
        axes.set_xlabel(growth.family)
        axes.set_ylabel("seconds")
        axes.grid(alpha=0.25)
        axes.legend(frameon=False)
        return svg(name, figure, f"{growth.lesson}: seconds for {growth.family}", of_growth(growth))


def of_growth(growth: Growth) -> str:
    """The plot in words."""
    first, last = growth.sizes[0], growth.sizes[-1]
    sides = {"torch": (first.torch, last.torch), "ours": (first.ours, last.ours)}
    words = [
        f"{side} takes {statistics.median(low):.2g} s for {first.size} "
        f"and {statistics.median(high):.2g} s for {last.size}"
        for side, (low, high) in sides.items()
    ]
    return f"{'; '.join(words)}. Exponents: torch {growth.torch:.1f}, ours {growth.ours:.1f}."


def ratio_plot(name: str, results: list[Result]) -> str:
    """The ratio of every case that has a target, its noise, and the target."""
    with mpl.rc_context(STYLE | {"svg.hashsalt": name}):
        figure = Figure(figsize=(8, 0.9 + 0.24 * len(results)), layout="constrained")
        axes = figure.subplots()
        places = range(len(results))
        ratios = [result.ratio for result in results]
        lowest = [statistics.quantiles(spread(result), n=4)[0] for result in results]
        highest = [statistics.quantiles(spread(result), n=4)[2] for result in results]
        axes.hlines(places, lowest, highest, color=OURS["color"], alpha=0.5, linewidth=4)
        axes.plot(
            ratios,
            places,
            "o",
            color=OURS["color"],
            label="ours / torch, with the middle half of the rounds",
        )
        axes.plot(
            [r.target for r in results],
            places,
            "|",
            color=TORCH["color"],
            ms=13,
            mew=2.5,
            label="target",
        )
        axes.set_yticks(places, [f"{result.lesson}: {result.case}" for result in results])
        axes.invert_yaxis()
        axes.set_xscale("log")
        axes.set_xticks([0.001, 0.01, 0.1, 1.0], ["0.001", "0.01", "0.1", "1"])
        axes.minorticks_off()
        axes.grid(axis="x", alpha=0.25)
        figure.legend(frameon=False, loc="outside upper right", ncols=2)
        return svg(name, figure, "Our time over torch's, and the targets", of_ratios(results))


def in_page(figure: str, caption: str) -> str:
    """A plot as a block of HTML, which Markdown leaves alone."""
    return (
        f'<figure class="plot">\n{figure.strip()}\n'
        f"<figcaption>{escape(caption)}</figcaption>\n</figure>\n"
    )


def spread(result: Result) -> list[float]:
    """The ratios of the rounds; quartiles need two at least."""
    return result.ratios * 2 if len(result.ratios) == 1 else result.ratios


def of_ratios(results: list[Result]) -> str:
    """The plot in words."""
    missed = [f"{result.lesson}, {result.case}" for result in results if result.is_missed]
    kept = f"{len(results) - len(missed)} of {len(results)} targets are reached."
    return f"{kept} Missed: {'; '.join(missed)}." if missed else kept


def svg(name: str, figure: Figure, title: str, description: str) -> str:
    """A figure as an ``svg`` element for a page: no prologue, its own ids, the page's ink."""
    out = io.StringIO()
    figure.savefig(out, format="svg", transparent=True, metadata={"Date": None, "Creator": None})
    text = out.getvalue()
    text = re.sub(r"<(metadata|style).*?</\1>\s*", "", text[text.index("<svg") :], flags=re.DOTALL)
    text = re.sub(r'(id="|xlink:href="#|url\(#)', rf"\g<1>{name}-", text).replace(
        INK, "currentColor"
    )
    head = (
        f'<svg role="img" aria-labelledby="{name}-title {name}-description" '
        f'style="max-width: 100%; height: auto"'
    )
    words = (
        f'<title id="{name}-title">{escape(title)}</title>\n'
        f'<desc id="{name}-description">{escape(description)}</desc>\n'
    )
    opening, _, rest = text.partition(">")
    return f"{opening.replace('<svg', head, 1)}>\n{words}{rest.lstrip()}"
