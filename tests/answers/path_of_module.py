"""prov."""

from tests.suite.answers import right, wrong


@wrong(fails="test_the_root_is_the_empty_string", says="expected:     ''".replace("     ", " "))
def last(lesson):
    """X."""

    class PathOfModule:
        def path_of_module(self, mod):
            return "x"

    lesson.PathOfModule = PathOfModule


@right
def other(lesson):
    """Y."""
