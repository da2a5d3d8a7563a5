"""No test depends on the order of the tests, on what another test left behind, or on a network."""

from __future__ import annotations

import socket
from random import Random

import pytest
from torch import nn
from torch.fx import _symbolic_trace as torch_fx

from kata.paths import suites
from lessons import NAMES
from tests.suite.answers import run_suite
from tests.suite.plugin import NetworkError, nothing_left_patched


class Shuffled:
    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        Random(1).shuffle(items)


@pytest.mark.slow
@pytest.mark.parametrize("lesson", NAMES)
def test_a_lesson_passes_in_any_order(lesson: str):
    verdict = run_suite(*suites(lesson), "-m", "not slow", impl="full", plugins=[Shuffled()])
    assert not verdict.texts(), "\n".join(verdict.texts())
    assert verdict.count("passed") > 0


def test_what_a_trace_left_behind_is_undone():
    call, patcher, namespace = nn.Module.__call__, torch_fx.CURRENT_PATCHER, {"kept": 1}
    with nothing_left_patched(namespace):
        nn.Module.__call__, torch_fx.CURRENT_PATCHER = None, object()
        namespace["len"] = len
    assert nn.Module.__call__ is call
    assert torch_fx.CURRENT_PATCHER is patcher
    assert namespace == {"kept": 1}


def test_another_machine_is_out_of_reach_and_this_one_is_not():
    with socket.socket() as client, pytest.raises(NetworkError, match="no network"):
        client.connect(("192.0.2.1", 80))
    with socket.create_server(("127.0.0.1", 0)) as server:
        socket.create_connection(server.getsockname()).close()
