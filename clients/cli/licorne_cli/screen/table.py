"""The table of queues: the columns that fit, and the cells of each row."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from rich.cells import cell_len, set_cell_size
from rich.table import Table as RichTable
from rich.text import Text

from licorne_cli.output.text import human_amount, squeeze
from licorne_cli.screen.pieces import bar, label, percent, queue_marks
from licorne_cli.screen.tree import Key, QueueNode

PADDING = 2
"""Blanks between two columns."""
NARROW = 70
NAME_LEAST, NAME_SHARE = 12, 4
BAR_LEAST, BAR_MOST = 8, 40
PERCENT = 5
NOTE_LEAST, NOTE_SHARE = 8, 4
RESOURCE_MOST, SHORT_RESOURCE_MOST = 14, 8
GRAVE = ("at max", "over max", "full", "stopped")
"""Beginnings of the marks that are red; others are yellow."""


@dataclass(frozen=True, slots=True)
class Column:
    """A column, which may be dropped for lack of room."""

    heading: str
    cell: Callable[[QueueNode, str], str]
    right: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """A line of the table: a queue, and the resource for its bar and numbers."""

    node: QueueNode
    resource: str
    name: str
    indent: int = 0
    note: str = ""
    style: str = ""


def _amount_of(kind: str) -> Callable[[QueueNode, str], str]:
    def cell(node: QueueNode, resource: str) -> str:
        found: int = getattr(node.queue, kind).get(resource, 0)
        return human_amount(resource, found) if found else ""

    return cell


def _max(node: QueueNode, resource: str) -> str:
    """The queue's own maximum, or in brackets the maximum of an ancestor or the size of the cluster."""
    if resource not in node.limit:
        return ""
    whole = human_amount(resource, node.limit[resource])
    own = node.queue.max.get(resource)
    return whole if own is not None and own <= node.limit[resource] else f"({whole})"


def _applications(node: QueueNode, _: str) -> str:
    queue = node.queue
    return f"{queue.running_applications}/{queue.applications}" if queue.applications else ""


RESOURCE = Column("RESOURCE", lambda _, name: squeeze(label(name), RESOURCE_MOST), right=False)
SHORT_RESOURCE = Column("RES", lambda _, name: squeeze(label(name), SHORT_RESOURCE_MOST), right=False)
"""The column of the resource for a narrow screen."""
USED = Column("USED", _amount_of("allocated"))
GUARANTEED = Column("GUARANTEED", _amount_of("guaranteed"))
MAX = Column("MAX", _max)
PENDING = Column("PENDING", _amount_of("pending"))
APPLICATIONS = Column("APPS", _applications)

BEFORE_NOTES = (RESOURCE, SHORT_RESOURCE, USED, MAX)
"""Columns with priority over notes. The resource is first, because numbers have no meaning without it."""
BY_PRIORITY = (USED, MAX, PENDING, GUARANTEED, APPLICATIONS)
"""Columns with numbers, the most important first."""
IN_ORDER = (RESOURCE, SHORT_RESOURCE, USED, GUARANTEED, MAX, PENDING, APPLICATIONS)


def queue_rows(nodes: Iterable[QueueNode], resource: str, collapsed: frozenset[Key]) -> list[Row]:
    """A row for each queue; an empty resource means the dominant resource of each queue."""
    return [_queue_row(node, resource or node.dominant(), collapsed) for node in nodes]


def _queue_row(node: QueueNode, resource: str, collapsed: frozenset[Key]) -> Row:
    sign, hidden = "  " if node.depth else "", ""
    if node.children:
        shut = node.key in collapsed
        sign = f"{'▸' if shut else '▾'} "
        hidden = f" ({node.below()})" if shut else ""
    style = "" if node.queue.is_managed else "italic"
    return Row(
        node=node,
        resource=resource,
        name=f"{sign}{node.name}{hidden}",
        indent=2 * node.depth,
        note=", ".join(queue_marks(node, resource)),
        style=style if node.depth else "bold",
    )


def resource_rows(node: QueueNode, resources: Iterable[str]) -> list[Row]:
    """A row for each of these resources of a queue."""
    return [Row(node=node, resource=name, name=label(name)) for name in resources]


class Table:
    """The columns of some rows that fit into `width` cells, and the cells of each row.

    Marks precede most numbers when room is assigned: a mark is never dropped, but may be cut.
    """

    def __init__(self, rows: Sequence[Row], width: int, *, first: str, columns: Sequence[Column]) -> None:
        """`first` is the heading of the names. The last columns are dropped first."""
        self._first = first
        self._kept = [column for column in columns if column in BEFORE_NOTES]
        self._others = [column for column in columns if column not in BEFORE_NOTES]
        self._lay_out(rows, width)

    @classmethod
    def of_queues(cls, rows: Sequence[Row], width: int) -> "Table":
        """The table of queues."""
        resource = SHORT_RESOURCE if width < NARROW else RESOURCE
        return cls(rows, width, first="QUEUE", columns=(resource, *BY_PRIORITY))

    @classmethod
    def of_resources(cls, rows: Sequence[Row], width: int) -> "Table":
        """The table of the resources of one queue."""
        return cls(rows, width, first=RESOURCE.heading, columns=BY_PRIORITY[:-1])

    def _lay_out(self, rows: Sequence[Row], width: int) -> None:
        """Assign widths: first the minimum, then to columns as they fit, then more to name, note and bar."""
        names = max((row.indent + cell_len(row.name) for row in rows), default=0)
        notes = max((cell_len(row.note) for row in rows), default=0)
        usual = NAME_LEAST if width < NARROW else width // NAME_SHARE
        self._name = max(min(names, usual), len(self._first))
        self._note = min(notes, NOTE_LEAST)
        self._columns: list[tuple[Column, int]] = []
        room = width - self._name - BAR_LEAST - PERCENT - 2 * PADDING
        room -= self._note + PADDING if notes else 0
        room = self._add(self._kept, rows, room)
        noted = min(max(notes, 0), max(NOTE_LEAST, width // NOTE_SHARE)) - self._note
        self._note += min(noted, room)
        room = self._add(self._others, rows, room - min(noted, room))
        grown = max(min(names - self._name, room // 2), 0)
        noted = min(notes - self._note, room - grown)
        self._name, self._note = self._name + grown, self._note + noted
        self._bar = min(BAR_LEAST + room - grown - noted, BAR_MOST)
        self._columns.sort(key=lambda item: IN_ORDER.index(item[0]))

    def _add(self, columns: Sequence[Column], rows: Sequence[Row], room: int) -> int:
        """Add the first columns that fit; returns the remaining room."""
        for column in columns:
            cells = (cell_len(column.cell(row.node, row.resource)) for row in rows)
            needed = max(len(column.heading), *cells, 0)
            if room < needed + PADDING:
                break
            room -= needed + PADDING
            self._columns.append((column, needed))
        return max(room, 0)

    def headings(self) -> list[tuple[Text, int]]:
        """The names of the columns and their widths in cells."""
        found = [(Text(self._first), self._name), (Text("USE OF MAX"), self._bar + PERCENT)]
        for column, cells in self._columns:
            found.append((Text(column.heading, justify="right" if column.right else "left"), cells))
        return [*found, (Text("NOTE"), self._note)] if self._note else found

    def cells(self, row: Row) -> list[Text]:
        """The cells of a row."""
        node, resource = row.node, row.resource
        indent = min(row.indent, self._name // 2)
        used, whole = node.queue.allocated.get(resource, 0), node.whole(resource)
        due = node.queue.guaranteed.get(resource, 0)
        measured = bar(used, due, whole, self._bar).append(f"{percent(used, whole):>{PERCENT}}")
        name = set_cell_size(" " * indent + squeeze(row.name, self._name - indent), self._name)
        found = [Text(name, row.style), measured]
        for column, _ in self._columns:
            found.append(Text(column.cell(node, resource), justify="right" if column.right else "left"))
        if self._note:
            style = "bold red" if row.note.startswith(GRAVE) else "yellow"
            found.append(Text(row.note, style, no_wrap=True, overflow="ellipsis"))
        return found

    def printed(self, rows: Iterable[Row]) -> RichTable:
        """The table for printing on a console."""
        table = RichTable(box=None, padding=(0, PADDING, 0, 0), pad_edge=False, header_style="bold")
        for heading, cells in self.headings():
            side = heading.justify or "left"
            table.add_column(heading, width=cells, justify=side, no_wrap=True, overflow="ellipsis")
        for row in rows:
            table.add_row(*self.cells(row))
        return table
