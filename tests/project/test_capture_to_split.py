"""The pieces below the modules meet: what was captured gets its modules back, and is cut."""

from __future__ import annotations

import pytest
import torch
from torch.utils._pytree import tree_leaves

from solutions.capture import program
from solutions.code import GraphModule
from solutions.graph import Graph
from solutions.split_module import split_module
from solutions.unflatten import unflatten
from tests.suite import equal, same_numbers
from tests.zoo import classifier


@pytest.mark.parametrize("name", ["resnet18", "shufflenet_v2_x0_5", "squeezenet1_0"])
def test_a_captured_model_gets_its_modules_back_and_is_cut(name: str):
    model, inputs, _ = vars(classifier(name)).values()
    with torch.no_grad():
        tree = unflatten(program(model, inputs))
        names = [
            {name.partition("@")[0] for name, _ in each.named_modules()} for each in (tree, model)
        ]
        equal(names[0], names[1])
        same_numbers(tree(*inputs), model(*inputs))
        whole = GraphModule(tree, tree.graph)
        last = set(list(tree.graph.nodes)[len(tree.graph.nodes) // 2 :])
        cut = split_module(whole, whole, lambda node: int(node in last))
        equal([name for name, _ in cut.named_children()], ["submod_0", "submod_1"])
        equal(type(cut.graph), Graph)
        same_numbers(tree_leaves(cut(*inputs)), [model(*inputs)])
