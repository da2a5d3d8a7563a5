"""Unlike the core: a stage computes its forward twice, and holds no activations in between."""

from __future__ import annotations

from ...schedule import Engine, Held


class RecomputingEngine(Engine):
    """Holds no activations between a forward and its backward: it computes them again.

    The numbers are the same if the stage computes the same twice: without dropout, and without
    buffers that it writes.

    In torch: ``torch.utils.checkpoint``, around the stage's forward.
    """

    def forward(self, microbatch: int) -> None:
        """Run the forward, and keep what was received; the activations go with their history."""
        super().forward(microbatch)
        self.held[microbatch] = Held(self.held[microbatch].received, {})

    def backward(self, microbatch: int) -> None:
        """Run the forward again, now with history, and then the backward."""
        received = self.held[microbatch].received
        values, output = self.compute(microbatch, received)
        sent = {user: [values[each] for each in nodes] for user, nodes in self.stage.sends.items()}
        loss = self.loss_fn(output, self.targets[microbatch]) if self.loss_fn else None
        self.held[microbatch] = Held(received, sent, loss)
        super().backward(microbatch)
