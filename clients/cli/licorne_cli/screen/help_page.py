"""The help of the screen: its keys, and the meaning of its words and signs."""

from collections.abc import Iterator

from rich.text import Text

from licorne_cli.screen.cells import fitting, wrapped
from licorne_cli.screen.glyphs import Glyphs

KEYS = (
    ("arrows, pgup, pgdn", "move the cursor; so do k, j, and home, end, g, G"),
    ("enter", "open the queue: its applications, and what they wait for"),
    ("esc", "back; in the table: no filter"),
    ("left, right, space", "hide and show the queues below a queue"),
    ("-, +", "hide, show all that is below the first level"),
    ("/", "type a part of a path or partition: only queues that have it are shown"),
    ("s", "sort queues of one parent by name, use, pending, applications"),
    (
        "m",
        "which resource is shown: of each queue the one of which it uses most, or one for all",
    ),
    ("q, Ctrl-C", "quit"),
)
WORDS = (
    ("USE OF MAX", "how much is used of the maximum. The bar is full at the maximum, not before"),
    (
        "MAX",
        "in brackets if it is not the queue's own, but that of a queue above, or of the cluster",
    ),
    ("RESOURCE, RES", "what the bar and the figures of a queue are of"),
    ("PENDING", "what asks wait for"),
    ("APPS", "applications that run, and all; of a parent the running ones below it"),
    ("cores", "of vcore, 250m is a quarter; bytes in Ki, Mi, Gi, powers of 1024"),
    ("at max", "it has all that its maximum allows, of the resource that is named or shown"),
    ("over max", "it has more: its maximum was lowered"),
    ("full", "all of the cluster is allocated"),
    ("parent at max", "something waits, and a queue above it is at its maximum"),
    ("at max apps", "no other application may run"),
    ("preempting", "what victims take that were told to stop"),
    ("promised", "what is kept for asks that victims were told to stop for"),
    ("draining, stopped", "the queue takes no new applications"),
    ("RM lost", "the resource manager has no stream open"),
    ("on hold", "nothing is scheduled for the RM, and why"),
)
LABEL_CELLS = 21
LONGEST = 6
"""In lines."""


def help_page(glyphs: Glyphs, width: int, room: int, top: int) -> list[Text]:
    """The help from a line on; where it does not fit, a line says how much more there is."""
    lines = [*_section(KEYS, width), Text(), *_section(WORDS, width)]
    if len(lines) <= room:
        return lines
    space = max(room - 1, 0)
    top = min(top, len(lines) - space)
    below = len(lines) - space - top
    more = (
        f"{glyphs.down} {below} more lines" if below else "",
        f"{glyphs.up} {top} above" * bool(top),
    )
    return [*lines[top : top + space], Text(fitting(more, width), "bold")]


def _section(pairs: tuple[tuple[str, str], ...], width: int) -> Iterator[Text]:
    """Each word with its meaning beside it, or below it where there is little room."""
    label = min(LABEL_CELLS, width // 3)
    for name, meaning in pairs:
        lines = wrapped(meaning, max(width - label, 1), LONGEST)
        if len(name) + 2 > label:
            yield Text(name, "bold")
        else:
            yield Text.assemble((name.ljust(label), "bold"), lines.pop(0))
        yield from (Text(" " * label + line) for line in lines)
