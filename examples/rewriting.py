"""Your rewriter folds every batch normalisation of ResNet18 into the convolution before it."""

import torch

from kata.torchvision_compat import torchvision
from lessons.rewriting import fuse

model = torchvision.models.resnet18().eval()
fused = fuse(model)
x = torch.rand(1, 3, 64, 64)
norms = [sum("Norm" in type(each).__name__ for each in m.modules()) for m in (model, fused)]
print(f"batch normalisations: {norms[0]} before, {norms[1]} after")
print("largest difference of the outputs:", (model(x) - fused(x)).abs().max().item())
