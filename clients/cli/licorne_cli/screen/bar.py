"""A bar: how much of a maximum is used, and where the guarantee ends."""

from rich.text import Text

from licorne_cli.screen.glyphs import Glyphs

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
