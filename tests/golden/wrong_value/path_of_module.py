class PathOfModule:
    def path_of_module(self, mod):
        index = {id(module): name for name, module in self.root.named_modules(remove_duplicate=False)}
        return index[id(mod)]
