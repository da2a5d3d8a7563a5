class CreateArg:
    def create_arg(self, a):
        if isinstance(a, list):
            return [self.create_arg(element) for element in a]
        return self.create_arg(a)
