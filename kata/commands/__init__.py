"""The commands, one module each: ``kata --help`` lists them."""
