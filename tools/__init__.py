"""What maintainers use: stubs, pictures, and checks of the pages."""
