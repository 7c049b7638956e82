"""Text by the cells that it takes on a terminal: a wide character takes two, an accent none."""

from collections.abc import Iterable, Sequence

from rich.cells import cell_len

CUT = "…"


def fill(text: str, cells: int, *, right: bool = False) -> str:
    """The text in exactly so many cells: padded, or shortened at its end."""
    text = cut(text, cells)
    room = " " * (cells - cell_len(text))
    return room + text if right else text + room


def cut(text: str, cells: int) -> str:
    """The text in at most so many cells; an ellipsis says that its end is missing."""
    if cell_len(text) <= cells:
        return text
    return _start(text, cells - 1) + CUT if cells > 0 else ""


def squeeze(text: str, cells: int) -> str:
    """The text in at most so many cells; an ellipsis says that its middle is missing.

    Names that are alike at their start mostly differ at their end.
    """
    if cell_len(text) <= cells:
        return text
    if cells < 1:
        return ""
    end = _start(text[::-1], (cells - 1) // 2)[::-1]
    return _start(text, cells - 1 - cell_len(end)) + CUT + end


def _start(text: Iterable[str], cells: int) -> str:
    found = ""
    for character in text:
        cells -= cell_len(character)
        if cells < 0:
            break
        found += character
    return found


def wrapped(text: str, cells: int, most: int) -> list[str]:
    """The text in at most `most` lines, broken at blanks; an ellipsis says that its end is missing.

    A word that is longer than a line is broken. A line has at least two cells.
    """
    cells = max(cells, 2)
    lines = [""]
    for word in text.split():
        joined = f"{lines[-1]} {word}" if lines[-1] else word
        if cell_len(joined) <= cells:
            lines[-1] = joined
            continue
        if lines[-1]:
            lines.append("")
        rest = word
        while cell_len(rest) > cells:
            lines[-1] = _start(rest, cells)
            rest = rest[len(lines[-1]) :]
            lines.append("")
        lines[-1] = rest
        if len(lines) > most:
            break
    if len(lines) <= most:
        return lines
    return [*lines[: most - 1], cut(f"{lines[most - 1]}{CUT}", cells)] if most else []


def fitting(pieces: Sequence[str], cells: int, gap: str = "  ") -> str:
    """As many of the pieces, the first ones first, as have room; of the first at least a start."""
    line = ""
    for piece in filter(None, pieces):
        if not line:
            line = cut(piece, cells)
        elif cell_len(line) + cell_len(gap) + cell_len(piece) <= cells:
            line += gap + piece
    return line
