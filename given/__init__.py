"""What the lessons give you: your code calls it, and so does the reference."""
