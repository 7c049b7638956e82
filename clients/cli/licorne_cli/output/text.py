"""Output of commands (DESIGN § 5): aligned tables with human units, JSON with raw numbers.

Data is written to stdout, messages to stderr. A table uses rich on a terminal, otherwise plain text.
`ask_consent` asks the operator before an action.
"""

import errno
import json
import os
import re
import shutil
import sys
from collections.abc import Iterator, Mapping, MutableSequence, Sequence
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from itertools import zip_longest
from typing import TYPE_CHECKING, Any, TextIO

from google.protobuf.message import Message
from rich.cells import cell_len, set_cell_size

from licorne_cli.failures import UsageError

if TYPE_CHECKING:
    from licorne.v1.state_pb2 import HolderReason

NOTHING = "-"
GAP = 2
"""Blanks between two columns."""
SHORTEST_NAME = 16
"""Minimum number of cells of a name whose middle is cut."""
LIST_GAP = 3
"""Blanks between the values of an item in a list."""
INDENT = "  "
DEEP_INDENT = "      "
BINARY_UNITS = ("", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei")
BYTE_RESOURCES = ("memory", "ephemeral-storage")
BYTE_PREFIX = "hugepages-"
_AMOUNT = r"[^\s\[\]]+:-?\d+"
AMOUNTS = re.compile(rf"map\[({_AMOUNT}(?: {_AMOUNT})*)\]")


def say(text: str) -> None:
    """Print a message for people on stderr, with control characters escaped; a failed write is ignored."""
    if sys.stderr is not None:
        with suppress(OSError):
            print(*map(printable, text.split("\n")), sep="\n", file=sys.stderr)


CANNOT_WRITE = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.EBADF})
"""System errors of a failed write to stdout."""


class OutputError(Exception):
    """The output cannot be written; the text gives the reason."""


@contextmanager
def while_read(*, needed: bool = True) -> Iterator[None]:
    """A block that prints to stdout; a closed pipe ends the block silently.

    Raises:
        OutputError: a write failed for another reason, such as a full disk, or there is no stdout although it
            is `needed`.
    """
    if sys.stdout is None and needed:
        raise OutputError("stdout is closed")
    try:
        yield
        if sys.stdout is not None:
            sys.stdout.flush()
    except BrokenPipeError:
        _drop_the_rest()
    except OSError as error:
        if error.errno not in CANNOT_WRITE or error.filename is not None:
            raise
        _drop_the_rest()
        raise OutputError(f"cannot write to stdout: {error.strerror}") from None


def _drop_the_rest() -> None:
    """Redirect stdout to nothing, because buffered output would be written at exit."""
    if sys.stdout is not None:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def is_terminal(stream: TextIO) -> bool:
    """True for a stream that supports colours and cursor movements."""
    return stream.isatty() and os.environ.get("TERM") != "dumb"


def printable(text: str) -> str:
    """A text with its control characters escaped, because names are untrusted."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def shorten(value: float) -> str:
    """A number with at most one decimal, and without ``.0``: ``15.3``, ``4``."""
    return f"{value:.1f}".removesuffix(".0")


def counted(number: int, what: str) -> str:
    """``1 ask``, ``2,000 asks``."""
    return f"{number} {what}" if number == 1 else f"{number:,} {what}s"


def human_bytes(amount: int) -> str:
    """``1.5Gi`` for 1610612736."""
    value, unit = float(abs(amount)), 0
    # An amount that would be rounded up to 1024 is shown as 1 of the next larger unit.
    while value >= 1023.95 and unit < len(BINARY_UNITS) - 1:
        value, unit = value / 1024, unit + 1
    return f"{'-' if amount < 0 else ''}{shorten(value)}{BINARY_UNITS[unit]}"


def human_cores(milli: int) -> str:
    """``250m`` below one core, ``15.3`` above."""
    return f"{milli}m" if 0 < abs(milli) < 1000 else shorten(milli / 1000)


def is_in_bytes(name: str) -> bool:
    """True for a resource whose amounts are bytes."""
    return name in BYTE_RESOURCES or name.startswith(BYTE_PREFIX)


def human_amount(name: str, amount: int) -> str:
    """An amount in the usual unit of its resource."""
    if name == "vcore":
        return human_cores(amount)
    if is_in_bytes(name):
        return human_bytes(amount)
    return str(amount)


def human_resources(resources: Mapping[str, int]) -> str:
    """Amounts as text: ``memory=4Gi,vcore=1.5``; a dash if there are none."""
    parts = (f"{name}={human_amount(name, resources[name])}" for name in sorted(resources))
    return printable(",".join(parts)) or NOTHING


def hours_text(hours: Mapping[str, float], unit: str = "") -> str:
    """``memory=1.5Gi,vcore=12.3``: amounts times hours, in the units of the amounts, each with `unit`."""
    parts = (f"{name}={_hours_amount(name, hours[name])}{unit}" for name in sorted(hours))
    return printable(",".join(parts)) or NOTHING


def _hours_amount(name: str, value: float) -> str:
    if name == "vcore":
        return shorten(value / 1000) if value >= 1000 else f"{value / 1000:.3g}"
    return human_bytes(round(value)) if is_in_bytes(name) else shorten(value)


def human_text(text: str) -> str:
    """A sentence of the core with its amounts in human units.

    The core writes amounts as ``map[memory:1024 vcore:500]``, for programs that parse this form.
    """

    def amounts(match: re.Match[str]) -> str:
        pairs = (pair.rpartition(":") for pair in match[1].split(" "))
        return human_resources({name: int(amount) for name, _, amount in pairs})

    return printable(AMOUNTS.sub(amounts, text))


def reason_text(reason: "HolderReason") -> str:
    """The reason why an ask does not run on its reserved node, with the missing resources."""
    lacks = f", lacks {human_resources(reason.lacks)}" if reason.lacks else ""
    return human_text(reason.message) + lacks


def to_plain(value: Any) -> Any:
    """A message as a dict under its proto JSON names, with all fields; other values unchanged.

    A missing message or optional number is None. An enum's value is its name, or its number if it is unknown.
    64-bit numbers are numbers, although proto JSON writes strings: parsers of proto JSON accept both, and
    other programs can calculate with numbers.
    """
    if isinstance(value, Message):
        return {
            field.json_name: None
            if field.has_presence and not value.HasField(field.name)
            else _plain_field(field, getattr(value, field.name))
            for field in value.DESCRIPTOR.fields
        }
    if isinstance(value, Mapping):
        return {key: to_plain(value[key]) for key in sorted(value)}
    if isinstance(value, MutableSequence):
        return [to_plain(item) for item in value]
    return value


def _plain_field(field: Any, value: Any) -> Any:
    """The value of a field; only the field's type distinguishes enums from numbers."""
    if field.enum_type is None:
        return to_plain(value)
    names = field.enum_type.values_by_number
    if isinstance(value, int):
        return names[value].name if value in names else value
    return [names[item].name if item in names else item for item in value]


def print_json(data: Any) -> None:
    """Print indented JSON on stdout."""
    print(json.dumps(data, indent=2, ensure_ascii=False))


def print_yaml(data: Any) -> None:
    """Print YAML on stdout, with keys in the given order."""
    import yaml

    print(yaml.safe_dump(data, sort_keys=False, allow_unicode=True), end="")


DATA_FORMS = ("json", "yaml")
"""Forms of `-o` with complete data, for programs."""


def print_data(data: Any, output: str) -> None:
    """Print data for programs, as JSON or as YAML."""
    (print_yaml if output == "yaml" else print_json)(data)


def widths_of(table: Sequence[Sequence[str]]) -> list[int]:
    """The width of each column, in terminal cells."""
    return [max(map(cell_len, column)) for column in zip(*table, strict=True)]


def padded(table: Sequence[Sequence[str]], widths: Sequence[int]) -> list[list[str]]:
    """The cells padded to these widths with two blanks between; the last column is not padded."""
    rooms = [*(width + GAP for width in widths[:-1]), 0]
    return [
        [cell + " " * (room - cell_len(cell)) for cell, room in zip(row, rooms, strict=True)] for row in table
    ]


def print_table(headers: Sequence[str], rows: Sequence[Sequence[str]], *, heads: int = 1) -> None:
    """Print a table on stdout; see `Table`."""
    Table(headers, heads=heads).print(rows)


class Table:
    """A table on stdout that may grow. All cells are made printable.

    Without a terminal nothing is cut, as in kubectl. On a narrow terminal, long names lose their middle. If
    that is not enough, the table becomes a list: a line with the first `heads` cells of a row, and below it
    the other non-empty cells with their headers. The first rows determine the form.
    """

    def __init__(
        self,
        headers: Sequence[str],
        *,
        heads: int = 1,
        with_headers: bool = True,
        widths: Sequence[int] = (),
    ) -> None:
        """`widths` are the minimum widths of the columns."""
        self._headers = list(headers)
        self._heads = max(heads, 1)
        self._with_headers = with_headers
        self._widths = list(widths)
        self._cut: dict[int, int] = {}
        self._is_list = False
        self._begun = False

    def print(self, rows: Sequence[Sequence[str]]) -> None:
        """Print more rows, with the headers before the first ones."""
        cells = [[printable(cell) for cell in row] for row in rows]
        first = [self._headers] if self._with_headers and not self._begun else []
        fresh = widths_of([self._headers if self._with_headers else [""] * len(self._headers), *cells])
        self._widths = [max(pair) for pair in zip_longest(self._widths, fresh, fillvalue=0)]
        if not self._begun and is_terminal(sys.stdout):
            excess = sum(self._widths) + GAP * (len(self._widths) - 1) - terminal_width()
            self._cut = narrowed(self._headers, cells, self._widths, excess)
            self._is_list = excess > 0 and not self._cut
        self._begun = True
        if self._is_list:
            for row in cells:
                print_segments(listed(self._headers, row, self._heads, terminal_width()))
            return
        for column, width in self._cut.items():
            self._widths[column] = width
            for row in cells:
                row[column] = squeeze(row[column], width)
        lines = padded([*first, *cells], self._widths)
        styled = [[(cell, "bold") for cell in line] for line in lines[: len(first)]]
        styled += [[(c, CELL_STYLES.get(c.rstrip(), "")) for c in line] for line in lines[len(first) :]]
        print_segments(styled)


def narrowed(
    headers: Sequence[str], rows: Sequence[Sequence[str]], widths: Sequence[int], excess: int
) -> dict[int, int]:
    """Smaller widths of the columns of names, which make a table narrower by `excess`; none if impossible.

    The widest columns are narrowed first. A name is a single word, but not an amount such as ``vcore=1``.
    """
    least = {
        number: max(SHORTEST_NAME, cell_len(headers[number]))
        for number, column in enumerate(zip(*rows, strict=True))
        if not any(" " in cell or "=" in cell for cell in column)
    }
    found = {number: widths[number] for number in least}
    for _ in range(excess):
        widest = max(found, key=lambda number: found[number] - least[number], default=None)
        if widest is None or found[widest] <= least[widest]:
            return {}
        found[widest] -= 1
    return {number: width for number, width in found.items() if width < widths[number]}


def squeeze(text: str, cells: int) -> str:
    """The text in at most this number of cells, without its middle, as names mostly differ at the ends."""
    if cell_len(text) <= cells:
        return text
    if cells < 1:
        return ""
    end = cells // 2
    # Half of a wide character becomes a blank.
    start, end_of = set_cell_size(text, cells - 1 - end), set_cell_size(text[::-1], end)[::-1]
    return f"{start.rstrip()}…{end_of.lstrip()}"


Segment = tuple[str, str]
"""A piece of a line, and its style."""


def listed(headers: Sequence[str], row: Sequence[str], heads: int, width: int) -> list[list[Segment]]:
    """A row as an item of a list: its head, and below it the other cells in few lines."""
    head = [cell for cell in row[:heads] if cell != NOTHING]
    if head and head[0].replace(",", "").isdecimal():
        # A number alone has no meaning, so it gets its header: `revision 3`, `nodes 11,996`.
        head[0] = f"{headers[0].lower()} {head[0]}"
    lines: list[list[Segment]] = []
    line: list[Segment] = [(head[0], "bold")] if head else []
    used = cell_len(line[0][0]) if line else 0
    for cell in head[1:]:
        line.append((f"{' ' * GAP}{cell}", CELL_STYLES.get(cell, "")))
        used += GAP + cell_len(cell)
    lines.append(line)
    used = width
    for header, cell in zip(headers[heads:], row[heads:], strict=True):
        if cell in ("", NOTHING):
            continue
        label = f"{header.lower()} "
        needed = cell_len(label) + cell_len(cell)
        if used + LIST_GAP + needed > width:
            lines.append([(INDENT, "")])
            used = len(INDENT)
        else:
            lines[-1].append((" " * LIST_GAP, ""))
            used += LIST_GAP
        first, *more = folded(cell, width - used - cell_len(label), width - len(DEEP_INDENT))
        lines[-1] += [(label, "dim"), (first, CELL_STYLES.get(cell, ""))]
        lines += [[(DEEP_INDENT, ""), (piece, "")] for piece in more]
        used = len(DEEP_INDENT) + cell_len(more[-1]) if more else used + cell_len(label + first)
    return lines


def folded(text: str, first: int, others: int) -> list[str]:
    """The text in lines of limited width, broken after blanks and commas.

    A word that is longer than a line is not broken, so that it can be copied.
    """
    lines, room = [""], first
    for word in re.split(r"(?<=[ ,])", text):
        if cell_len(lines[-1]) + cell_len(word.rstrip()) > room and (lines[-1] or len(lines) == 1):
            lines.append("")
            room = others
        lines[-1] += word
    return [line.rstrip() for line in lines]


def print_sentence(text: str) -> None:
    """Print a sentence on stdout; on a terminal its lines are broken at blanks."""
    if is_terminal(sys.stdout):
        text = "\n".join(folded(text, terminal_width(), terminal_width()))
    print(text)


def print_segments(lines: Sequence[Sequence[Segment]]) -> None:
    """Print lines, with styles on a terminal."""
    if not is_terminal(sys.stdout):
        for line in lines:
            print("".join(text for text, _ in line).rstrip())
        return
    from rich.console import Console
    from rich.text import Text

    console = Console(highlight=False)
    for line in lines:
        # A Text, not markup, because the name of a partition has square brackets.
        console.print(Text.assemble(*line), soft_wrap=True)


def terminal_width() -> int:
    """The width of the terminal in cells; `COLUMNS` overrides it."""
    return shutil.get_terminal_size().columns


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
    """The time in UTC, to the millisecond."""
    moment = datetime.fromtimestamp(nanoseconds // 10**6 / 1e3, UTC)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def shown_clock(seconds: float) -> str:
    """The time of day in UTC: ``14:13:20Z``."""
    return datetime.fromtimestamp(seconds, UTC).strftime("%H:%M:%SZ")


AGREED = ("y", "yes")


def ask_consent(question: str, undone: str, *, yes: bool) -> None:
    """Ask for consent on a terminal, unless `yes` is set; `undone` is the message if it is refused.

    Raises:
        UsageError: the answer is no, or there is no terminal.
    """
    if yes:
        return
    if not sys.stdin.isatty():
        raise UsageError(f"{undone}: say --yes to do it")
    print(f"{question} [y/N] ", end="", file=sys.stderr, flush=True)
    if sys.stdin.readline().strip().lower() not in AGREED:
        raise UsageError(undone)
