class PathOfModule:
    def path_of_module(self, mod):
        names = {module: name for name, module in self.root.named_modules()}
        return self.prefix(names, mod)

    def prefix(self, names, mod):
        return names[mod].lstrip(self.separator)
