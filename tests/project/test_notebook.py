"""The notebook is made from page and stub, and runs from its first cell to its last."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path

import pytest

from kata.paths import CORES, ROOT
from tests.project.stage import python
from tools import notebook

# What Jupyter does with a cell of code, without a server and a kernel.
RUN = """
import json, sys
from IPython.core.interactiveshell import InteractiveShell
shell = InteractiveShell.instance()
for cell in json.load(open(sys.argv[1], encoding="utf-8"))["cells"]:
    if cell["cell_type"] == "code":
        shell.run_cell(cell["source"]).raise_error()
"""


def test_the_notebook_is_fresh():
    text = notebook.NOTEBOOK.read_text(encoding="utf-8")
    assert text == notebook.notebook(notebook.address_in(text)), "run `nox -s notebook`"


def executed(folder: Path, text: str) -> str:
    """Return what the cells print, run in an empty folder; nothing may come from the network."""
    (folder / "notebook.ipynb").write_text(text, encoding="utf-8")
    offline = os.environ | {"PIP_NO_INDEX": "1", "IPYTHONDIR": str(folder / ".ipython")}
    done = python("-c", RUN, "notebook.ipynb", cwd=folder, env=offline)
    assert done.returncode == 0, done.stdout + done.stderr
    return re.sub(r"\x1b\[[\d;]*m", "", done.stdout)  # without colours


def test_the_notebook_runs_as_it_is(tmp_path: Path):
    name = notebook.LESSON.name
    printed = executed(tmp_path, notebook.notebook(ROOT.as_uri()))
    assert "placeholder    x " in printed  # the page's example
    assert f"todo      {name}" in printed


@pytest.mark.slow
def test_the_notebook_says_done_once_its_cell_holds_the_core(tmp_path: Path):
    name = notebook.LESSON.name
    content = json.loads(notebook.notebook(ROOT.as_uri()))
    (cell,) = [each for each in content["cells"] if each["source"].startswith("%%writefile")]
    core = (CORES / f"{name}.py").read_text(encoding="utf-8")
    cell["source"] = f"%%writefile lessons/{name}.py\n{core}"
    assert f"done      {name}" in executed(tmp_path, json.dumps(content))
