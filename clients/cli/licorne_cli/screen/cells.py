"""Text by the cells that it takes on a terminal: a wide character takes two, an accent none.

Also here:

* A bar: how much of a maximum is used, and where the guarantee ends.
"""

from collections.abc import Iterable, Sequence

from rich.cells import cell_len
from rich.text import Text

from licorne_cli.screen.glyphs import Glyphs

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


WITHIN, BEYOND, PLAIN, FULL, ROOM = "green", "yellow", "cyan", "red", "dim"
EIGHTHS = 8


def bar(used: int, guaranteed: int, whole: int, cells: int, glyphs: Glyphs) -> Text:
    """A bar of so many cells, the last one used in eighths.

    What is used beyond a guarantee is hatched. A mark shows where a guarantee ends that is not
    used up. The bar is full only if the maximum is reached, and empty only if nothing is used.
    """
    steps = _steps(used, whole, cells * EIGHTHS)
    mark = _mark(guaranteed, whole, cells)
    full, rest = divmod(steps, EIGHTHS)
    if not glyphs.parts:
        full, rest = max(full, min(steps, 1)), 0
    borrows = 0 < guaranteed < used
    # However little it is: what is beyond a guarantee must be seen without colours too.
    within = min(mark, full - 1) if borrows and full else full
    colour = _colour(used, guaranteed, whole)
    found = Text()
    found.append(glyphs.used * within, WITHIN if borrows and used < whole else colour)
    found.append(glyphs.beyond * (full - within), colour)
    if rest:
        found.append(glyphs.parts[rest - 1], colour)
    start = full + bool(rest)
    free = (glyphs.guarantee if at == mark and not borrows else glyphs.room for at in range(start, cells))
    return found.append("".join(free), ROOM)


def _steps(used: int, whole: int, steps: int) -> int:
    """The steps of a bar that an amount fills; all and none only where that is so."""
    if used <= 0:
        return 0
    if used >= whole:
        return steps
    return min(max(used * steps // whole, 1), steps - 1)


def _mark(guaranteed: int, whole: int, cells: int) -> int:
    """The cell in which the guarantee ends; none of the bar without one."""
    if not guaranteed or not whole:
        return cells
    return min(guaranteed * cells // whole, cells - 1)


def _colour(used: int, guaranteed: int, whole: int) -> str:
    if used >= whole:
        return FULL
    if not guaranteed:
        return PLAIN
    return BEYOND if used > guaranteed else WITHIN
