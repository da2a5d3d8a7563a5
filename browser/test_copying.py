"""A button copies what a reader can run: the commands, and not the prompt before them."""

from __future__ import annotations

import pytest

from browser.visits import Visitor

# A page, the prompts of its blocks, and what is written after one of them.
BLOCKS = [
    ("setup.html", ("$ ",), "pip install nox"),
    ("lessons/inversion.html", ("$ ",), "kata watch inversion"),
    ("api/inversion.html", (">>> ", "... "), "add_inverse(torch"),
]


@pytest.mark.parametrize(("page", "prompts", "command"), BLOCKS, ids=[row[0] for row in BLOCKS])
def test_a_copied_block_is_without_its_prompts(
    visitor: Visitor, page: str, prompts: tuple[str, ...], command: str
):
    with visitor.visit(page) as visit:
        visit.page.context.grant_permissions(["clipboard-read", "clipboard-write"])
        shown, copied = [], []
        for block in visit.page.locator(".highlight:has(.gp)").all():
            button = block.locator("button[data-clipboard-target]")
            if block.is_visible() and button.count():
                shown.append(block.inner_text())
                button.first.click()
                copied.append(visit.page.evaluate("() => navigator.clipboard.readText()"))
        assert any(prompt in text for text in shown for prompt in prompts)
        lines = [line for text in copied for line in text.splitlines()]
        assert not [line for line in lines if line.startswith(prompts)]
        assert [line for line in lines if command in line]
