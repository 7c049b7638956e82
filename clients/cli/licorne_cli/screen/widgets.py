"""The parts of the screen and their keys: head, queues, an opened queue, help and filter."""

from collections.abc import Sequence
from typing import ClassVar

from rich.console import Group
from rich.text import Text
from textual import events
from textual.binding import Binding, BindingType
from textual.containers import Vertical, VerticalScroll
from textual.coordinate import Coordinate
from textual.widgets import DataTable, Input, Static

from licorne_cli.output.text import printable, shown_clock
from licorne_cli.screen.pages import (
    HEADINGS,
    application_cells,
    count_of,
    explanation,
    help_text,
    queue_facts,
)
from licorne_cli.screen.pieces import all_marks
from licorne_cli.screen.table import Table, queue_rows
from licorne_cli.screen.tree import Opened, Snapshot
from licorne_cli.screen.view import View

LONGEST_FILTER = 64
COMMON: list[BindingType] = [
    Binding("q", "app.quit", "quit"),
    Binding("question_mark,h", "app.turn_to('help')", "help", key_display="?"),
]
MOVES: list[BindingType] = [
    Binding("k", "cursor_up", show=False),
    Binding("j", "cursor_down", show=False),
    Binding("g,home", "scroll_top", show=False),
    Binding("G,end", "scroll_bottom", show=False),
]


class Head(Vertical):
    """The title and the time, the status or a failure, and the marks of partitions."""

    def __init__(self) -> None:
        parts = [Static(id=name, markup=False) for name in ("title", "status", "marks")]
        self._title, self._status, self._marks = parts
        super().__init__(*parts)

    def show(self, title: str, status: str, snapshot: Snapshot, *, has_failed: bool) -> None:
        """Display these texts."""
        for part, text in (
            (self._title, f"{title}  {shown_clock(snapshot.time)}"),
            (self._status, status),
            (self._marks, "\n".join(all_marks(snapshot.clusters))),
        ):
            part.update(text)
            part.display = bool(text)
        self._status.set_class(has_failed, "failed")


class Rows(DataTable[Text]):
    """A table whose rows are replaced with each snapshot, without changing the scroll position."""

    def __init__(self, place: str, *, has_keys: bool) -> None:
        """`place` is the id of the table. Without keys there is no cursor."""
        super().__init__(id=place, cursor_type="row", cursor_foreground_priority="renderable")
        self.show_cursor = has_keys
        self._headings: Sequence[tuple[Text, int | None]] = ()
        self._cells: list[list[Text]] = []

    def take(self, headings: Sequence[tuple[Text, int | None]], cells: list[list[Text]], cursor: int) -> None:
        """Set the rows, and the headings with their widths in cells, and move the cursor."""
        before = self.scroll_offset
        if headings != self._headings:
            self._headings = headings
            self._cells = []
            self.clear(columns=True)
            for heading, width in headings:
                self.add_column(heading, width=width)
            self.call_after_refresh(self.scroll_to, y=before.y, animate=False)
        for at in range(self.row_count - 1, len(cells) - 1, -1):
            self.remove_row(self.ordered_rows[at].key)
        for at, row in enumerate(cells):
            if at >= self.row_count:
                self.add_row(*row)
                continue
            for place, (new, old) in enumerate(zip(row, self._cells[at], strict=True)):
                if new != old or new.style != old.style:
                    self.update_cell_at(Coordinate(at, place), new, update_width=True)
        self._cells = cells
        if cursor != self.cursor_row:
            self.move_cursor(row=cursor)
        self._mark(self.cursor_row, is_chosen=True)

    def watch_cursor_coordinate(self, old_coordinate: Coordinate, new_coordinate: Coordinate) -> None:
        """Highlight only the name in the row of the cursor, as the colours of other cells have a meaning."""
        super().watch_cursor_coordinate(old_coordinate, new_coordinate)
        self._mark(old_coordinate.row, is_chosen=False)
        self._mark(new_coordinate.row, is_chosen=True)

    def _mark(self, row: int, *, is_chosen: bool) -> None:
        if self.show_cursor and row < min(self.row_count, len(self._cells)):
            name = self._cells[row][0].copy()
            if is_chosen:
                name.stylize("reverse")
            self.update_cell_at(Coordinate(row, 0), name)


class Queues(Rows):
    """The table of all queues."""

    BINDINGS: ClassVar[list[BindingType]] = [
        *COMMON,
        Binding("s", "app.change('sort')", "sort"),
        Binding("m", "app.change('resource')", "resource"),
        Binding("enter", "select_cursor", "open", key_display="enter"),
        Binding("space", "app.change('fold')", "fold"),
        Binding("left", "app.change('collapse')", show=False),
        Binding("right", "app.change('expand')", show=False),
        Binding("minus", "app.change('collapse all')", show=False),
        Binding("plus", "app.change('expand all')", show=False),
        Binding("escape", "app.unfilter", show=False),
        *MOVES,
    ]

    def show(self, view: View, width: int) -> None:
        """Show the visible queues, on a screen with this width."""
        wanted = view.wanted
        collapsed = frozenset() if wanted.text else wanted.collapsed
        rows = queue_rows(view.nodes, wanted.resource, collapsed)
        table = Table.of_queues(rows, width - self.styles.scrollbar_size_vertical)
        self.take(table.headings(), [table.cells(row) for row in rows], view.row)


class Applications(Rows):
    """The applications of an opened queue."""

    BINDINGS: ClassVar[list[BindingType]] = [
        *COMMON,
        Binding("escape,left,backspace", "app.leave", "back", key_display="esc"),
        *MOVES,
    ]


class OpenedQueue(VerticalScroll):
    """A queue with its resources, its applications, and the reason why the chosen one waits."""

    def __init__(self, *, has_keys: bool) -> None:
        """Without keys there is no cursor."""
        self._facts = Static(id="facts")
        self._count = Static(id="count", markup=False)
        self.applications = Applications("applications", has_keys=has_keys)
        self._why = Static(id="why", markup=False)
        parts = (self._facts, self._count, self.applications, self._why)
        super().__init__(*parts, id="opened", can_focus=False)

    def show(self, view: View, opened: Opened, width: int) -> None:
        """Show the opened queue, on a screen with this width."""
        node, inside = view.node_of(opened), view.inside(opened)
        applications = list(inside.applications) if inside is not None else []
        names = [one.application_id for one in applications]
        at = names.index(opened.application) if opened.application in names else 0
        headings = [(Text(heading), None) for heading in HEADINGS]
        self.applications.take(headings, [*map(application_cells, applications)], at)
        self.applications.display = bool(applications)
        facts: Text | Group = Text(f"queue {printable(opened.path)} is gone", "bold red")
        count, why = "", Text()
        if node is not None:
            facts, count = queue_facts(node, width), count_of(node, inside)
            why = explanation(inside, names[at]) if inside is not None and names else why
        self._facts.update(facts)
        self._count.update(count)
        self._why.update(why)


class Help(VerticalScroll):
    """The help; every key closes it, except keys that scroll it."""

    BINDINGS: ClassVar[list[BindingType]] = [
        COMMON[0],
        Binding("escape", "app.leave", "back, as any other key", key_display="esc"),
        Binding("k", "scroll_up", show=False),
        Binding("j", "scroll_down", show=False),
        Binding("g", "scroll_home", show=False),
        Binding("G", "scroll_end", show=False),
    ]

    def __init__(self) -> None:
        super().__init__(Static(help_text()), id="help")

    async def on_key(self, event: events.Key) -> None:
        """Close the help, unless the key scrolls."""
        if event.key not in self.screen.active_bindings:
            event.stop()
            await self.run_action("app.leave")


class Typing(Input):
    """The filter, which applies while it is typed."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("down", "app.keep_filter", show=False),
        Binding("escape", "app.unfilter", "ends it", key_display="esc"),
    ]

    def __init__(self) -> None:
        super().__init__(id="filter", max_length=LONGEST_FILTER, placeholder="a part of a path", compact=True)
