"""``capture``: FILL IN: what the stretch asks for."""

from __future__ import annotations

import pytest
from torch import fx

from tests.suite import same_graph


@pytest.mark.beyond(reason="FILL IN: what torch does instead")
def test_FILL_IN_what_ours_does_better(lesson):
    graph = fx.symbolic_trace(lambda x: x + 1).graph
    same_graph(lesson.first_step(graph), graph)
