"""Tools for maintainers: stubs, pictures, and checks of the pages."""
