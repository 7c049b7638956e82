"""The characters that a picture is made of, for terminals with and without Unicode."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Glyphs:
    """The characters of a bar and of a tree.

    `parts` are the beginnings of a cell, from one eighth on; without them a cell is full or empty.
    """

    used: str
    beyond: str
    room: str
    guarantee: str
    parts: str
    expanded: str
    collapsed: str
    up: str
    down: str


UNICODE = Glyphs(
    used="█",
    beyond="▒",
    room="·",
    guarantee="│",
    parts="▏▎▍▌▋▊▉",
    expanded="▾",
    collapsed="▸",
    up="↑",
    down="↓",
)
ASCII = Glyphs(
    used="#",
    beyond="=",
    room=".",
    guarantee="|",
    parts="",
    expanded="-",
    collapsed="+",
    up="up:",
    down="down:",
)


def glyphs_for(encoding: str) -> Glyphs:
    """Those that a stream of this encoding can carry."""
    try:
        "".join((UNICODE.used, UNICODE.beyond, UNICODE.parts, UNICODE.collapsed)).encode(encoding)
    except (UnicodeEncodeError, LookupError):
        return ASCII
    return UNICODE
