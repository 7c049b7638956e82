"""The table of queues: the choice of columns by width, and the rows."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from rich.cells import cell_len
from rich.text import Text

from licorne_cli.output.text import human_amount
from licorne_cli.screen.pieces import Glyphs, bar, fill, label, queue_marks, squeeze, unit
from licorne_cli.screen.tree import Key, Node

NARROW = 70
GAP, NARROW_GAP = 2, 1
NAME_LEAST, NAME_SHARE = 12, 4
BAR_LEAST, BAR_MOST = 8, 40
PERCENT = 5
NOTE_LEAST, NOTE_SHARE = 8, 4
RESOURCE_MOST, SHORT_RESOURCE_MOST = 14, 8
BAR_HEADING = "USE OF MAX"
GRAVE = ("at max", "over max", "full", "stopped")
"""Marks that begin with these are red; others are yellow."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Chosen:
    """The settings of a table: its resource, empty for the dominant one of each queue."""

    resource: str
    collapsed: frozenset[Key]
    glyphs: Glyphs


@dataclass(frozen=True, slots=True)
class Column:
    """A column that is dropped for lack of room."""

    heading: str
    cell: Callable[[Node, str], str]
    unit: Callable[[str], str] = unit
    right: bool = True


def _amount_of(kind: str) -> Callable[[Node, str], str]:
    def cell(node: Node, resource: str) -> str:
        found: int = getattr(node.queue, kind).get(resource, 0)
        return human_amount(resource, found) if found else ""

    return cell


def _max(node: Node, resource: str) -> str:
    """The queue's own maximum; in brackets that of an ancestor, or the size of the cluster."""
    if resource not in node.limit:
        return ""
    whole = human_amount(resource, node.limit[resource])
    own = node.queue.max.get(resource)
    return whole if own is not None and own <= node.limit[resource] else f"({whole})"


def _applications(node: Node, _: str) -> str:
    queue = node.queue
    return f"{queue.running_applications}/{queue.applications}" if queue.applications else ""


RESOURCE = Column("RESOURCE", lambda _, name: squeeze(label(name), RESOURCE_MOST), right=False)
SHORT_RESOURCE = Column("RES", lambda _, name: squeeze(label(name), SHORT_RESOURCE_MOST), right=False)
"""The column of the resource for a narrow screen."""
USED = Column("USED", _amount_of("allocated"))
GUARANTEED = Column("GUARANTEED", _amount_of("guaranteed"))
MAX = Column("MAX", _max)
PENDING = Column("PENDING", _amount_of("pending"))
APPLICATIONS = Column("APPS", _applications, unit=lambda _: "run/all")

BY_PRIORITY = (USED, MAX, PENDING, GUARANTEED, APPLICATIONS)
"""Columns of numbers, the most important first."""
BEFORE_NOTES = (RESOURCE, SHORT_RESOURCE, USED, MAX)
"""Columns for which a note is cut. The resource is first: without it numbers have no meaning."""
IN_ORDER = (RESOURCE, SHORT_RESOURCE, USED, GUARANTEED, MAX, PENDING, APPLICATIONS)


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """The width of each part of a line, in cells."""

    name: int
    bar: int
    note: int
    columns: Sequence[tuple[Column, int]]


class Table:
    """The lines of some queues, `width` cells wide.

    Marks have room before numbers: a mark is never dropped, but may be cut.
    """

    def __init__(self, nodes: Sequence[Node], chosen: Chosen, width: int) -> None:
        """`nodes` are the visible queues, which determine the widths of columns."""
        self._chosen = chosen
        self._width = width
        self._gap = NARROW_GAP if width < NARROW else GAP
        self._measures = {node.key: chosen.resource or node.dominant() for node in nodes}
        self._notes = {node.key: ", ".join(queue_marks(node, self._measures[node.key])) for node in nodes}
        self._layout = self._laid_out(nodes)

    def _laid_out(self, nodes: Sequence[Node]) -> Layout:
        """The widths: first the minimum, then columns as they fit, then more for name, note and bar."""
        longest = max((cell_len(self._label(node)) for node in nodes), default=0)
        note = max((cell_len(text) for text in self._notes.values()), default=0)
        name = min(longest, max(NAME_LEAST, self._width // NAME_SHARE))
        least = min(note, NOTE_LEAST)
        note_now = min(note, max(NOTE_LEAST, self._width // NOTE_SHARE))
        rest = self._width - name - 1 - BAR_LEAST - PERCENT - (note_now + self._gap if note_now else 0)
        columns = []
        for column in self._by_priority():
            needed = self._needed(column, nodes)
            spare = note_now - least if column in BEFORE_NOTES else 0
            if rest + spare < needed + self._gap:
                break
            rest -= needed + self._gap
            columns.append((column, needed))
        columns.sort(key=lambda item: IN_ORDER.index(item[0]))
        note_now = max(note_now + min(rest, 0), least)
        rest = max(rest, 0)
        grown = min(longest - name, rest // 2)
        noted = min(note - note_now, rest - grown)
        return Layout(
            name=name + grown,
            note=note_now + noted,
            bar=min(BAR_LEAST + rest - grown - noted, BAR_MOST),
            columns=columns,
        )

    def _by_priority(self) -> Sequence[Column]:
        """The columns by priority, with that of the resource unless it is the same in all rows."""
        if self._chosen.resource:
            return BY_PRIORITY
        return (SHORT_RESOURCE if self._width < NARROW else RESOURCE, *BY_PRIORITY)

    def _needed(self, column: Column, nodes: Sequence[Node]) -> int:
        cells = (cell_len(column.cell(node, self._measures[node.key])) for node in nodes)
        fixed = bool(self._chosen.resource)
        heading = max(len(column.heading), cell_len(self._unit(column)) if fixed else 0)
        return max(heading, *cells) if nodes else heading

    def _unit(self, column: Column) -> str:
        return squeeze(column.unit(self._chosen.resource), RESOURCE_MOST)

    def headings(self) -> list[Text]:
        """The names of the columns; below them resource and unit, if all rows have the same."""
        layout = self._layout
        measured = layout.bar + PERCENT
        head = fill("QUEUE", layout.name) + " " + fill(BAR_HEADING, measured)
        resource = squeeze(label(self._chosen.resource), measured)
        units = " " * (layout.name + 1) + fill(resource, measured)
        for column, cells in layout.columns:
            head += " " * self._gap + fill(column.heading, cells, right=column.right)
            units += " " * self._gap + fill(self._unit(column), cells, right=column.right)
        if layout.note:
            head += " " * self._gap + "NOTE"
        lines = [Text(head, "bold")]
        if self._chosen.resource:
            lines.append(Text(units, "dim"))
        return lines

    def line(self, node: Node, *, is_chosen: bool = False) -> Text:
        """The row of a queue; the row of the cursor has a highlighted name."""
        layout, queue = self._layout, node.queue
        resource = self._measures[node.key]
        used, whole = queue.allocated.get(resource, 0), node.whole(resource)
        due = queue.guaranteed.get(resource, 0)
        found = Text()
        found.append(fill(self._label(node, layout.name), layout.name), _name_style(node))
        if is_chosen:
            found.stylize("reverse")
        found.append(" ")
        found.append_text(bar(used, due, whole, layout.bar, self._chosen.glyphs))
        found.append(fill(percent(used, whole), PERCENT, right=True))
        for column, cells in layout.columns:
            text = fill(column.cell(node, resource), cells, right=column.right)
            found.append(" " * self._gap + text)
        note = self._notes[node.key]
        if note:
            grave = note.startswith(GRAVE)
            found.append(" " * self._gap)
            found.append(fill(note, layout.note), "bold red" if grave else "yellow")
        return found

    def _label(self, node: Node, cells: int = 0) -> str:
        """The indented name, with a sign if the queue has children."""
        step = 1 if self._width < 80 else 2
        indent = node.depth * step
        sign, hidden = "", ""
        if node.children:
            glyphs = self._chosen.glyphs
            shut = node.key in self._chosen.collapsed
            sign = f"{glyphs.collapsed if shut else glyphs.expanded} "
            hidden = f" ({node.below()})" if shut else ""
        elif node.depth:
            sign = "  "
        if not cells:
            return " " * indent + sign + node.name + hidden
        indent = min(indent, cells // 2)
        room = cells - indent - len(sign) - len(hidden)
        return " " * indent + sign + squeeze(node.name, room) + hidden


def _name_style(node: Node) -> str:
    if not node.depth:
        return "bold"
    return "" if node.queue.is_managed else "italic"


def percent(used: int, whole: int) -> str:
    """The used share: 100 % only from the maximum on; a dash if `whole` is zero."""
    if not whole:
        return "-" if not used else "over"
    share = 100 * used // whole
    return f"{share}%" if share or not used else "<1%"
