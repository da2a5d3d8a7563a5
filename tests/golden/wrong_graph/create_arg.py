class CreateArg:
    def create_arg(self, a):
        if isinstance(a, (list, tuple)) and not hasattr(a, "_fields"):
            return tuple(self.create_arg(element) for element in a)
        return super().create_arg(a)
