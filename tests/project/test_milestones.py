"""When a core turns green, the screen says what the lessons can do together now."""

from __future__ import annotations

import re
import socket
from pathlib import Path
from unittest import mock

import pytest

from kata import progress
from kata.commands import check
from kata.commands.watch import Watch
from kata.paths import ROOT
from kata.progress import milestone
from kata.terminal import open_console
from lessons import CHAIN, NAMES
from tests.models.schedule import finished, torchrun
from tests.project.stage import play, python, report, solve, turn_green, verdict

EXAMPLES = sorted((ROOT / "examples").glob("*.py"))
PROCESSES = "train"  # torchrun starts it


def test_an_example_is_named_after_a_lesson():
    assert {path.stem for path in EXAMPLES} <= {*NAMES, CHAIN.name, PROCESSES}


def test_a_milestone_says_which_pieces_of_its_script_are_lent(learner):
    assert milestone("path_of_module") == ""  # it has no script
    turn_green("code")
    run = "To see it: `kata run examples/code.py`"
    assert milestone("code").endswith(f"{run} (lent by the reference: proxy, graph)")
    turn_green("proxy", "graph")
    assert milestone("code").startswith("Your proxy, graph and code turn a function into a graph")
    assert milestone("code").endswith(run)
    progress.file_of("graph").write_text("changed = 1\n")
    assert milestone("code").endswith(f"{run} (lent by the reference: graph)")


def test_check_shows_the_milestone_of_a_green_core(learner, monkeypatch):
    turn_green("proxy", "graph", "code")
    monkeypatch.setattr(check, "verdicts", lambda *asked: [verdict("code", report("passed"))])
    first, *rest = play("check", "code").screen.splitlines()
    assert first.startswith("starred   code")
    assert "Your proxy, graph and code turn a function into a graph" in rest[0]


def test_watch_shows_the_milestone_when_the_core_turns_green_and_not_again(learner):
    solve("graph")
    console = open_console()
    watch = Watch(mock.Mock(), console, mock.Mock(), "graph")
    for outcome, is_shown in (("failed", False), ("passed", True), ("passed", False)):
        with console.capture() as shown:
            watch.conclude(verdict("graph", report(outcome)), progress.request("graph"))
        assert ("Your proxy records into your graph" in shown.get()) is is_shown


@pytest.mark.parametrize(
    "file", [each for each in EXAMPLES if each.stem != PROCESSES], ids=lambda file: file.stem
)
def test_every_example_runs_on_written_lessons(file: Path, learner):
    turn_green(*NAMES)
    played = play("run", str(file))
    assert played.code == 0, played.screen
    assert "lent" not in played.screen
    assert "the same numbers: False" not in played.screen
    assert len(played.screen.splitlines()) > 1


# --- the chain's example, in a process of its own


def lines_of(*words: str) -> list[str]:
    """The lines that a script prints, with the reference in the place of the lessons."""
    done = python("-m", "kata", "run", *words)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def test_neither_inductor_s_compiler_nor_torch_s_pipelining_is_imported(tmp_path: Path):
    # torch itself imports inductor's settings when it runs on fake tensors
    unwanted = [f"torch._inductor.{name}" for name in ("compile_fx", "graph", "codegen")]
    unwanted += ["torch.distributed.pipelining"]
    script = tmp_path / "example.py"
    script.write_text(
        f"import runpy, sys\nrunpy.run_path('examples/chain.py')\n"
        f"print([name for name in sys.modules if name.startswith({tuple(unwanted)})])"
    )
    assert lines_of(str(script))[-1] == "[]"


@pytest.mark.compiler
def test_compiled_stages_learn_the_same():
    plain, compiled = (
        [line for line in lines_of("examples/chain.py", *words) if line.startswith("step")]
        for words in ((), ("--compile",))
    )
    assert compiled == plain
    assert len(plain) == 4
    assert all(line.split()[5].rstrip(",") == line.split()[-1] for line in plain)


# --- the script that torchrun starts

TRAIN = ("-m", "kata", "run", "examples/train.py")


def steps_in(printed: str) -> list[str]:
    """Per step and rank, what was held and the loss; the times that were measured differ."""
    lines = sorted(line for line in printed.splitlines() if line.startswith("step"))
    return [re.sub(r"waited.*?; ", "", line) for line in lines]


@pytest.mark.slow
def test_the_script_trains_on_two_and_four_processes_and_two_agents():
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    places = [
        ("--nnodes=2", f"--node-rank={rank}", "--master-addr=127.0.0.1", f"--master-port={port}")
        for rank in (0, 1)
    ]
    agents = [torchrun(*TRAIN, processes=1, place=place) for place in places]
    on_two_agents = [finished(agent) for agent in agents]
    on_two, on_four = (finished(torchrun(*TRAIN, processes=count)) for count in (2, 4))
    assert [code for code, _ in (*on_two_agents, on_two, on_four)] == [0] * 4
    expected = steps_in(on_two[1])
    assert steps_in("".join(printed for _, printed in on_two_agents)) == expected
    held = [line.partition(": ")[2].split(";")[0] for line in expected]
    assert held == ["held at most 2", "held at most 1"] * 3
    losses = [
        [line.split()[-1] for line in steps_in(printed) if "loss" in line]
        for _, printed in (on_two, on_four)
    ]
    assert len(losses[0]) == 3
    assert losses[0] == losses[1]


@pytest.mark.slow
def test_with_blocking_sends_gpipe_runs_and_1f1b_hangs():
    words = (*TRAIN, "--blocking", "--timeout", "5")
    code, printed = finished(torchrun(*words, "--gpipe"))
    assert (code, len(steps_in(printed))) == (0, 6)
    code, printed = finished(torchrun(*words))
    assert code != 0
    assert "Timed out waiting" in printed
