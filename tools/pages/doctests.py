"""A doctest in a docstring is shown as the code that it is."""

from __future__ import annotations

import re

# A session at the prompt: from its first line to the next blank one.
SESSION = re.compile(r"^( *)>>> .*\n?(?:\1.*\S.*\n?)*", re.MULTILINE)


def with_fenced_sessions(text: str) -> str:
    """Return a docstring with a fence around each session; a page with fences stays as it is."""
    return text if "```" in text else SESSION.sub(fenced, f"{text}\n")


def fenced(session: re.Match[str]) -> str:
    indent = session[1]
    return f"{indent}```pycon\n{session[0].rstrip()}\n{indent}```\n\n"
