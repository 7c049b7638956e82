"""What the commands print (DESIGN § 5): aligned tables with human units, JSON with raw numbers.

Data goes to stdout, talk to stderr. A table uses rich on a terminal and plain text elsewhere.
"""

import json
import os
import re
import sys
from collections.abc import Iterator, Mapping, MutableSequence, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any, TextIO

from google.protobuf.message import Message

NOTHING = "-"
BINARY_UNITS = ("", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei")
BYTE_RESOURCES = ("memory", "ephemeral-storage")
BYTE_PREFIX = "hugepages-"
_AMOUNT = r"[^\s\[\]]+:-?\d+"
AMOUNTS = re.compile(rf"map\[({_AMOUNT}(?: {_AMOUNT})*)\]")


def say(text: str) -> None:
    """Talk: something for the person, not for the pipe."""
    print(text, file=sys.stderr)


@contextmanager
def while_read() -> Iterator[None]:
    """Print to stdout for as long as somebody reads it: a closed pipe ends the block in silence."""
    try:
        yield
        sys.stdout.flush()
    except BrokenPipeError:
        # What is buffered is written at exit, and needs a target.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def is_terminal(stream: TextIO) -> bool:
    """Whether colours and moving pictures make sense on this stream."""
    return stream.isatty() and os.environ.get("TERM") != "dumb"


def printable(text: str) -> str:
    """Names come from others: show control characters instead of obeying them."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def shorten(value: float) -> str:
    """At most one decimal, and none that says nothing: ``15.3``, ``4``."""
    return f"{value:.1f}".removesuffix(".0")


def human_bytes(amount: int) -> str:
    """``1.5Gi`` for 1610612736."""
    value, unit = float(abs(amount)), 0
    # What would be rounded up to 1024 is one of the next unit.
    while value >= 1023.95 and unit < len(BINARY_UNITS) - 1:
        value, unit = value / 1024, unit + 1
    return f"{'-' if amount < 0 else ''}{shorten(value)}{BINARY_UNITS[unit]}"


def human_cores(milli: int) -> str:
    """``250m`` below one core, ``15.3`` above."""
    return f"{milli}m" if 0 < abs(milli) < 1000 else shorten(milli / 1000)


def human_amount(name: str, amount: int) -> str:
    """An amount of a resource in the unit that people use for it."""
    if name == "vcore":
        return human_cores(amount)
    if name in BYTE_RESOURCES or name.startswith(BYTE_PREFIX):
        return human_bytes(amount)
    return str(amount)


def human_resources(resources: Mapping[str, int]) -> str:
    """``memory=4Gi,vcore=1.5``; a dash for none."""
    parts = (f"{name}={human_amount(name, resources[name])}" for name in sorted(resources))
    return printable(",".join(parts)) or NOTHING


def human_text(text: str) -> str:
    """A sentence of the core's with the amounts in it in human units.

    The core writes them as ``map[memory:1024 vcore:500]``, for programs that know this form.
    """

    def amounts(match: re.Match[str]) -> str:
        pairs = (pair.rpartition(":") for pair in match[1].split(" "))
        return human_resources({name: int(amount) for name, _, amount in pairs})

    return printable(AMOUNTS.sub(amounts, text))


def to_plain(value: Any) -> Any:
    """A message as a dict under its proto JSON names, nothing left out; other values as they are.

    64-bit numbers stay numbers, where proto JSON would make texts of them: proto JSON parsers
    take both, and everything else can reckon with these.
    """
    if isinstance(value, Message):
        return {
            field.json_name: to_plain(getattr(value, field.name))
            for field in value.DESCRIPTOR.fields
        }
    if isinstance(value, Mapping):
        return {key: to_plain(value[key]) for key in sorted(value)}
    if isinstance(value, MutableSequence):
        return [to_plain(item) for item in value]
    return value


def print_json(data: Any) -> None:
    """Indented JSON on stdout."""
    print(json.dumps(data, indent=2, ensure_ascii=False))


def aligned(headers: Sequence[str], rows: Sequence[Sequence[str]]) -> list[list[str]]:
    """The cells padded to the widths of their columns, two blanks between, the headers first."""
    table = [headers, *rows]
    widths = [max(map(len, column)) + 2 for column in zip(*table, strict=True)]
    widths[-1] = 0
    return [[cell.ljust(width) for cell, width in zip(row, widths, strict=True)] for row in table]


def print_table(headers: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """A table on stdout, as kubectl prints them: lines that are too long are not cut.

    Names from elsewhere must have gone through `printable`.
    """
    lines = aligned(headers, rows)
    if not is_terminal(sys.stdout):
        print("\n".join("".join(cells).rstrip() for cells in lines))
        return
    from rich.console import Console
    from rich.text import Text

    console = Console(highlight=False)
    for number, cells in enumerate(lines):
        # Text, not markup: a partition's name has square brackets in it.
        styles = (CELL_STYLES.get(cell.rstrip(), "") if number else "bold" for cell in cells)
        console.print(Text.assemble(*zip(cells, styles, strict=True)), soft_wrap=True)


CELL_STYLES = {
    "Active": "green",
    "Running": "green",
    "pass": "green",
    "yes": "green",
    "Draining": "yellow",
    "Stopped": "red",
    "Rejected": "red",
    "Failed": "red",
    "BLOCK": "bold red",
    "no": "yellow",
}


def shown_time(nanoseconds: int) -> str:
    """UTC to the millisecond."""
    moment = datetime.fromtimestamp(nanoseconds // 10**6 / 1e3, UTC)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")
