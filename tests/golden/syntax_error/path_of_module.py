class PathOfModule:
    def path_of_module(self, mod):
        for name, module in self.root.named_modules(
            if module is mod:
                return name
