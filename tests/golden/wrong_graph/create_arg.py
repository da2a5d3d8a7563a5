import torch


class CreateArg:
    def create_arg(self, a):
        if isinstance(a, torch.Tensor):
            for name, tensor in self.root.named_parameters():
                if tensor is a:
                    return self.create_node("get_attr", name, (), {}, name=f"param_{name}")
        return super().create_arg(a)
