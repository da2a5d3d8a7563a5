"""Names that somebody who writes a subclass of a tracer might give to helpers and notes."""

NAMES = """
_begin _cache _cached _children _convert _default _find _flatten _index _indexed _lookup _make
_modules _names _next_number _node _note _path _path_index _paths _placeholder _read _record _root
_search _seen _specialize _state _store _stored _table _trace _visit _walk
cache children convert find index names node notes paths placeholder read record seen state store
table visit walk
""".split()


def likely_names() -> dict[str, str]:
    """Attributes of a subclass that its base class needn't know."""
    return dict.fromkeys(NAMES, "the subclass's own")
