"""Your capture, unflatten, split_module and schedule train a transformer on two processes."""

import sys

import torch
from torch import nn

from lessons.capture import capture, program
from lessons.code import GraphModule
from lessons.schedule import one_f_one_b, simulate, train_step
from lessons.split_module import split_module
from lessons.unflatten import unflatten

STEPS, MICROBATCHES = 4, 4


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = nn.LayerNorm(16)
        self.attention, self.project = nn.Linear(16, 48), nn.Linear(16, 16)

    def forward(self, x):
        query, key, value = self.attention(self.norm(x)).chunk(3, -1)
        scores = query @ key.transpose(-1, -2) / 4
        return x + self.project(scores.softmax(-1) @ value)


class Transformer(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(20, 16)
        self.first, self.second = Block(), Block()
        self.head = nn.Linear(16, 5)

    def forward(self, words):
        return self.head(self.second(self.first(self.embed(words))).mean(1))


class InTuple(nn.Module):
    """Returns a tuple, as a graph for a compiler does."""

    def __init__(self, stage):
        super().__init__()
        self.stage = stage

    def forward(self, value):
        return (self.stage(value),)


class Compiled(nn.Module):
    """A stage that your backend compiles, forward and backward."""

    def __init__(self, stage, value):
        from lessons.backend import TABLE, backend

        super().__init__()
        self.stage = stage
        self.flat = capture(InTuple(stage), (value,), table=TABLE)
        self.run = backend(self.flat, [*self.state(), value])

    def state(self):
        return [*self.stage.parameters(), *self.stage.buffers()]

    def forward(self, value):
        (result,) = self.run(*self.state(), value)
        return result


def compile_stages(stages, value):
    """Put a compiled stage in the place of each, and return how many kernels they have."""
    from lessons.backend import kernels

    for name, stage in stages.named_children():
        stages.add_module(name, Compiled(stage, value))
        value = stage(value).detach().requires_grad_()
    return [sum(each.is_fused for each in kernels(stage.flat)) for stage in stages.children()]


def loss_of(output, targets):
    return nn.functional.cross_entropy(*output, targets)


torch.manual_seed(0)
model, words, targets = Transformer(), torch.randint(20, (8, 6)), torch.arange(8) % 5
part = words[: len(words) // MICROBATCHES]

captured = program(model, (part,))
tree = unflatten(captured)
whole = GraphModule(tree, tree.graph)
stages = split_module(whole, whole, lambda node: int(node.name in ("second", "mean", "head")))
print(f"captured {len(captured.graph.nodes)} nodes, cut into {len([*stages.children()])} stages")
if "--compile" in sys.argv:
    first, second = compile_stages(stages, part)
    print(f"compiled into {first} and {second} kernels")
print(simulate(one_f_one_b(2, MICROBATCHES)))

optimizer = torch.optim.SGD(stages.parameters(), lr=0.5)
for step in range(STEPS):
    loss, gradients = train_step(
        stages,
        (words,),
        targets,
        loss_of,
        order=one_f_one_b,
        microbatches=MICROBATCHES,
        world_size=2,
    )
    for name, parameter in stages.named_parameters():
        parameter.grad = gradients[name]
    optimizer.step()
    print(f"step {step + 1} of {STEPS}: loss {loss:.4f}", flush=True)
