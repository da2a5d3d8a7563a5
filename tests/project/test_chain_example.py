"""The chain as its example shows it: what it imports, and its stages compiled by the backend."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from kata.paths import ROOT
from tests.suite import equal

EXAMPLE = "examples/chain.py"


def run(*words: str) -> list[str]:
    """The lines that a script prints, with the reference in the place of the lessons."""
    done = subprocess.run(
        [sys.executable, "-m", "kata", "run", *words], capture_output=True, text=True, cwd=ROOT
    )
    equal(done.returncode, 0, hint=done.stderr[-300:])
    return done.stdout.splitlines()


def test_neither_inductor_s_compiler_nor_torch_s_pipelining_is_imported(tmp_path: Path):
    # torch itself imports inductor's settings when it runs on fake tensors
    unwanted = [f"torch._inductor.{name}" for name in ("compile_fx", "graph", "codegen")]
    unwanted += ["torch.distributed.pipelining"]
    script = tmp_path / "example.py"
    script.write_text(
        f"import runpy, sys\nrunpy.run_path({EXAMPLE!r})\n"
        f"print([name for name in sys.modules if name.startswith({tuple(unwanted)})])"
    )
    equal(run(str(script))[-1], "[]")


@pytest.mark.compiler
def test_compiled_stages_learn_the_same():
    plain, compiled = run(EXAMPLE), run(EXAMPLE, "--compile")
    equal([line for line in compiled if "kernels" not in line], plain)
    equal([line for line in compiled if "kernels" in line], ["compiled into 2 and 2 kernels"])
