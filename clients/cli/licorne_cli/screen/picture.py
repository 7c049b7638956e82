"""A screen as lines: head, queues, foot. Without a terminal, a snapshot is a single line."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from rich.console import Console
from rich.text import Text

from licorne_cli.connection.channel import NO_RM
from licorne_cli.output.text import printable
from licorne_cli.screen.pages import help_page, queue_page
from licorne_cli.screen.pieces import (
    BEYOND,
    PLAIN,
    ROOM,
    WITHIN,
    Glyphs,
    cluster_marks,
    fill,
    fitting,
    label,
    wrapped,
)
from licorne_cli.screen.table import Chosen, Table, percent
from licorne_cli.screen.tree import Cluster, Node, Snapshot
from licorne_cli.screen.view import View

HIGH_ENOUGH_FOR_A_LEGEND = 12
KEYS: Sequence[str] = (
    "q quit",
    "? help",
    "/ filter",
    "s sort",
    "m resource",
    "enter open",
    "space fold",
    "arrows move",
)
KEYS_OF_HELP: Sequence[str] = ("q quit", "arrows move", "any other key: back")
KEYS_INSIDE: Sequence[str] = ("q quit", "esc back", "? help", "arrows another application")
NO_KEYS: Sequence[str] = ("Ctrl-C quits",)


@dataclass(frozen=True, slots=True, kw_only=True)
class Frame:
    """The text around the queues: title, status, failure.

    `none` is the message for no RM.
    """

    title: str
    status: str
    glyphs: Glyphs
    failure: str = ""
    has_keys: bool = True
    none: str = NO_RM


def picture(view: View, frame: Frame, width: int, height: int) -> list[Text]:
    """Exactly `height` lines of at most `width` cells. The foot is always at the end."""
    head, foot = _head(view, frame, width), _foot(view, frame, width)
    if height >= HIGH_ENOUGH_FOR_A_LEGEND and view.opened is None and not view.is_helping:
        foot.insert(0, legend(frame.glyphs, width))
    room = max(height - len(head) - len(foot), 0)
    if view.is_helping:
        body = help_page(frame.glyphs, width, room, view.help_top)
    elif view.opened is not None:
        body = queue_page(view, frame.glyphs, width, room)
    else:
        body = _queues(view, frame, width, room)
    body = [*body, *(Text() for _ in range(room - len(body)))]
    lines = [*head, *body[:room], *foot][-height:]
    for line in lines:
        line.truncate(width, overflow="ellipsis")
    return lines


def whole_table(view: View, frame: Frame, width: int) -> list[Text]:
    """All queues with the head, however many lines that takes."""
    nodes = view.rows()
    table = Table(nodes, _chosen(view, frame), width)
    lines = [*_head(view, frame, width), *table.headings()]
    for item in _items(nodes, width):
        lines.append(table.line(item) if isinstance(item, Node) else item)
    return [*lines, legend(frame.glyphs, width)]


def _chosen(view: View, frame: Frame) -> Chosen:
    wanted = view.wanted
    collapsed = frozenset() if wanted.text else wanted.collapsed
    return Chosen(resource=wanted.resource, collapsed=collapsed, glyphs=frame.glyphs)


def _head(view: View, frame: Frame, width: int) -> list[Text]:
    """The title and the time; then the status, or a failure."""
    wanted = view.wanted
    seen = datetime.fromtimestamp(view.snapshot.time, UTC).strftime("%H:%M:%S UTC")
    title = Text(fitting((frame.title, seen), width), "bold")
    if frame.failure:
        return [title, Text(fill(frame.failure, width), "bold red reverse")]
    shows = f"bars: {label(wanted.resource)}" if wanted.resource else "bars: dominant resource"
    sort = f"sorted by {wanted.order}" if wanted.order != "name" else ""
    text = f"filter: {wanted.text}" if wanted.text and not view.is_typing else ""
    return [title, Text(fitting((frame.status, text, sort, shows), width))]


def _foot(view: View, frame: Frame, width: int) -> list[Text]:
    """The keys, or the filter while it is typed."""
    if view.is_typing:
        keys: Sequence[str] = (f"filter: {view.wanted.text}_", "enter keeps it", "esc ends it")
    elif not frame.has_keys:
        keys = NO_KEYS
    elif view.is_helping:
        keys = KEYS_OF_HELP
    else:
        keys = KEYS if view.opened is None else KEYS_INSIDE
    return [Text(fill(fitting(keys, width), width), "reverse")]


def legend(glyphs: Glyphs, width: int) -> Text:
    """The legend of a bar, as far as it fits; the help has all of it."""
    parts = (
        (glyphs.used, WITHIN, "within its guarantee"),
        (glyphs.beyond, BEYOND, "beyond it"),
        (glyphs.guarantee, ROOM, "guaranteed"),
        (glyphs.used, PLAIN, "no guarantee"),
        (glyphs.room, ROOM, "free"),
    )
    line = Text()
    for glyph, colour, meaning in parts:
        part = Text.assemble(("  " if line else ""), (glyph, colour), f" {meaning}")
        if line.cell_len + part.cell_len <= width:
            line.append_text(part)
    return line


def _items(nodes: Sequence[Node], width: int) -> list[Node | Text]:
    """The lines of the table: queues, and below a root the marks of its partition."""
    items: list[Node | Text] = []
    for node in nodes:
        items.append(node)
        if node.parent is None:
            for mark in cluster_marks(node.cluster):
                lines = wrapped(f"! {mark}", width - 2, 3)
                items.extend(Text(f"  {line}", "bold red") for line in lines)
    return items


def _queues(view: View, frame: Frame, width: int, room: int) -> list[Text]:
    """The table; if it does not fit, a part of it, and a line that counts the hidden queues."""
    nodes = view.rows()
    if not nodes:
        return _no_queues(view, frame, width)
    items = _items(nodes, width)
    selected = nodes[view.position(nodes)] if frame.has_keys else None
    headings = 2 if view.wanted.resource else 1
    space = max(room - headings, 1)
    if len(items) > space:
        space = max(space - 1, 1)
    view.top = _scrolled(items, selected, view.top, space)
    seen = items[view.top : view.top + space]
    table = Table([item for item in seen if isinstance(item, Node)], _chosen(view, frame), width)
    lines = table.headings()
    for item in seen:
        lines.append(table.line(item, is_chosen=item is selected) if isinstance(item, Node) else item)
    if len(items) > space:
        lines.extend(Text() for _ in range(space - len(seen)))
        lines.append(_more(items, view.top, len(seen), frame, width))
    return lines


def _no_queues(view: View, frame: Frame, width: int) -> list[Text]:
    """The reason for an empty table."""
    text = f"{frame.none}, so there are no queues"
    if view.wanted.text:
        text = f"no queue has {view.wanted.text} in its path"
    return [Text(line) for line in wrapped(text, width, 3)]


def _scrolled(items: Sequence[object], selected: object, top: int, space: int) -> int:
    """The first visible line, such that the cursor is visible and no line stays empty."""
    at = next((index for index, item in enumerate(items) if item is selected), 0)
    top = min(top, at)
    top = max(top, at - space + 1)
    return max(min(top, len(items) - space), 0)


def _more(items: Sequence[Node | Text], top: int, count: int, frame: Frame, width: int) -> Text:
    """The numbers of queues hidden above and below."""
    above = sum(isinstance(item, Node) for item in items[:top])
    below = sum(isinstance(item, Node) for item in items[top + count :])
    first = items[top]
    within = first.cluster.name if isinstance(first, Node) and first.depth else ""
    parts = [
        f"in {printable(within)}" if within else "",
        f"{frame.glyphs.down} {below:,} more below" if below else "",
        f"{frame.glyphs.up} {above:,} more above" if above else "",
        f"of {above + below + sum(isinstance(i, Node) for i in items[top : top + count]):,} queues",
    ]
    return Text(fitting(parts, width), "bold")


MEASURE = "vcore"


class Lines:
    """Prints snapshots as lines, at most one a second."""

    def __init__(self, console: Console) -> None:
        """`console` is the console to print on."""
        self._console = console
        self._next = 0.0

    def show(self, snapshot: Snapshot, seconds: float, status: str) -> None:
        """Print a line, unless one was printed within a second. `seconds` is the time since the start."""
        if seconds >= self._next:
            self._next = int(seconds) + 1.0
            self._console.print(line(snapshot, seconds, status), soft_wrap=True)


def line(snapshot: Snapshot, seconds: float, status: str) -> str:
    """The allocated share of the cores of each cluster, and its marks."""
    parts = [_part(cluster) for cluster in snapshot.clusters if cluster.queues]
    return f"{seconds:4.0f} s  {'  '.join(parts)}  {status}"


def _part(cluster: Cluster) -> str:
    root = cluster.queues[0]
    used, capacity = root.allocated.get(MEASURE, 0), root.max.get(MEASURE, 0)
    lost = " (RM lost)" if cluster.rm is not None and not cluster.rm.connected else ""
    held = " (on hold)" if cluster.partition.holds else ""
    return f"{printable(cluster.name)} {percent(used, capacity):>4}{lost}{held}"
