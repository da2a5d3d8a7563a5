"""A hook of mkdocs: it puts Python, the course's files and the scripts of the box into the site.

Python for browsers is npm's package ``pyodide``. Only a build with ``BOX=1`` fetches it, which
``nox -s publish`` and ``nox -s site`` do: the site as a folder stays small, and from a file no
browser could start it. Where it can't be fetched, the site has no box, and no page mentions one.
"""

from __future__ import annotations

import base64
import hashlib
import json
import logging
import os
import re
import shutil
import subprocess
import tarfile
import zipfile
from functools import cache
from html import escape
from pathlib import Path
from typing import Any

from kata.paths import ROOT
from tools.pages.road import first_hole

PYODIDE = "pyodide@314.0.7"
SHA512 = "0YvXxEhfEdpLfb/XkM2BFAeMROq0iMUX2bzzH9pOttyMcWkwq+HbE5uyuGD82LN7y2q+SNvi/6V5JEsOlD2R1A=="
FILES = (
    "pyodide.mjs",
    "pyodide.asm.mjs",
    "pyodide.asm.wasm",
    "python_stdlib.zip",
    "pyodide-lock.json",
)
TARBALL = ROOT / ".nox" / f"{PYODIDE.replace('@', '-')}.tgz"
SECONDS = 120
# The files of the course that run in the browser, as they are.
ENGINE = "__init__", "proxy", "graph", "code"
COURSE = (
    *(f"{folder}/{name}.py" for folder in ("solutions", "given") for name in ENGINE),
    *("drawing/*.py", "kata/*.py", "lessons/__init__.py", "tools/__init__.py", "tools/box/*.py"),
    *("tests/__init__.py", "tests/test_proxy.py", "tests/models/proxy.py", "tests/suite/*.py"),
    "tests/data/step_on_the_page.json",
)
SCRIPTS = ("box.js", "worker.js")
PAGE = "try.md"
# Where a page has a box, or a word about it.
PLACE = re.compile(r"<!-- box: (\w+) -->")
KINDS = {
    "trace": ("Your function", "Trace it", "Copy a link to it"),
    "step": ("Your record_call, in lessons/proxy.py", "Run the tests", ""),
}
GATE = """\
def gate(x, w, b):
    y = torch.sigmoid(x @ w + b)
    left, right = y[0], y[1:]
    return torch.cat([left, 2 * right]).sum(dim=-1)"""
BEFORE = """\
You can write this step here, before you install anything. Your browser runs the tests of step 1, \
which compare your graphs with those that torch recorded. There are no tensors here: operations \
are recorded, and nothing is computed. The rest of the file is the reference's. Run the tests once \
before you write, then replace the `raise`:"""
AFTER = "Green? Then go on in your editor: step 2 and all that follows need the real torch."
LINKS = {
    "link": "What is recorded of *your* function? [Trace it in your browser](try.md).",
    "button": "[Trace your own function](try.md){ .md-button }",
}
HTML = """<div class="fx-box" data-kind="{kind}">
<label for="fx-box-text">{label}</label>
<textarea id="fx-box-text" rows="{rows}" spellcheck="false" autocapitalize="off">{text}</textarea>
<p><button class="md-button md-button--primary">{run}</button> <button class="md-button" disabled>\
Stop</button>{share}</p>
<p role="status">This needs JavaScript, and the site on a server.</p>
<div></div>
<pre tabindex="0" role="group" aria-label="What it says" hidden></pre>
</div>"""
SHARE = ' <button class="md-button">{}</button>'
LOG = logging.getLogger("mkdocs.hooks.box")


class FetchError(Exception):
    """Python for browsers can't be had, or isn't the one that was pinned."""


@cache
def has_box() -> bool:
    """Return whether the site gets its box; if not, the build says why."""
    try:
        fetch()
    except (FetchError, OSError, subprocess.SubprocessError) as error:
        LOG.info("the site has no box to run Python in: %s", error)
        return False
    return True


def fetch() -> None:
    """Have the pinned package of npm, from an earlier build or from npm's registry."""
    if os.environ.get("BOX") != "1":
        raise FetchError("it is built without BOX=1")
    if not TARBALL.exists():
        npm = shutil.which("npm")
        if npm is None:
            raise FetchError("npm isn't installed")
        TARBALL.parent.mkdir(exist_ok=True)
        command = [npm, "pack", PYODIDE, "--silent", "--pack-destination", str(TARBALL.parent)]
        subprocess.run(command, check=True, timeout=SECONDS, capture_output=True)
    if base64.b64encode(hashlib.sha512(TARBALL.read_bytes()).digest()).decode() != SHA512:
        TARBALL.unlink()
        raise FetchError(f"{PYODIDE} isn't the package that is pinned")


def on_config(config: Any) -> Any:
    """Leave the page of the box out of the navigation, if there is none."""
    if not has_box():
        for entries in (each for tab in config.nav for each in tab.values()):
            entries[:] = [each for each in entries if PAGE not in vars_of(each)]
    return config


def vars_of(entry: Any) -> tuple[str, ...]:
    return tuple(entry.values()) if isinstance(entry, dict) else (entry,)


def on_files(files: Any, config: Any) -> Any:
    """Leave out the page of the box, if there is none."""
    if not has_box():
        files.remove(files.get_file_from_path(PAGE))
    return files


def on_post_build(config: Any) -> None:
    """Write what the box needs, which is fetched at the first click in it."""
    if has_box():
        write(Path(config.site_dir, "assets", "box"))


def write(folder: Path) -> None:
    """Write Python for browsers, the course's files and the scripts into a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    with tarfile.open(TARBALL) as package:
        for name in FILES:
            member: Any = package.extractfile(f"package/{name}")
            (folder / name).write_bytes(member.read())
    lock = folder / "pyodide-lock.json"
    # No package is installed besides: the list of those that could be is long.
    lock.write_text(json.dumps(json.loads(lock.read_text()) | {"packages": {}}))
    for name in SCRIPTS:
        shutil.copy(Path(__file__).with_name(name), folder)
    write_course(folder / "course.zip")


def write_course(file: Path) -> None:
    """Write the course's files into an archive."""
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        for path in sorted(path for pattern in COURSE for path in ROOT.glob(pattern)):
            archive.write(path, path.relative_to(ROOT))


def with_box(page: str) -> str:
    """Return a page with its boxes and the words about them, or without where there is none."""
    return PLACE.sub(lambda found: piece(found[1]) if has_box() else "", page)


def piece(name: str) -> str:
    """What a page has at a place: a box, a box between two paragraphs, or a link to one."""
    if name == "step":
        return f"{BEFORE}\n\n{box(name, first_hole('proxy'))}\n\n{AFTER}"
    return LINKS[name] if name in LINKS else box(name, GATE)


def box(kind: str, text: str) -> str:
    """A box as HTML, with what is in it to begin with."""
    label, run, share = KINDS[kind]
    return HTML.format(
        kind=kind,
        label=label,
        rows=len(text.splitlines()) + 1,
        text=escape(text),
        run=run,
        share=SHARE.format(share) if share else "",
    )
