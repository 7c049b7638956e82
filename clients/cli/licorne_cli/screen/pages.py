"""The pages in place of the table: an opened queue, and the help."""

from collections.abc import Iterator, Sequence

from rich.cells import cell_len
from rich.text import Text

from licorne.v1.state_pb2 import Application, ExplainResponse
from licorne_cli.output.text import human_resources, human_text, printable
from licorne_cli.screen.pieces import Glyphs, bar, fill, fitting, label, queue_marks, squeeze, wrapped
from licorne_cli.screen.table import (
    BAR_HEADING,
    GUARANTEED,
    IN_ORDER,
    MAX,
    PENDING,
    PERCENT,
    RESOURCE,
    USED,
    Column,
    percent,
)
from licorne_cli.screen.tree import Inside, Node, rank
from licorne_cli.screen.view import View

GAP = 2
BAR_LEAST, BAR_MOST = 8, 30
FEW_LINES = 3
NAME_MOST = 30
COLUMNS = (USED, MAX, PENDING, GUARANTEED)
"""Columns of the resources; the last ones are dropped first for lack of room."""


def queue_page(view: View, glyphs: Glyphs, width: int, room: int) -> list[Text]:
    """The page of the opened queue, in `room` lines."""
    opened, inside = view.opened, view.snapshot.inside
    assert opened is not None, "a queue is open"
    node = view.node((opened.partition, opened.path))
    if node is None:
        return [Text(f"queue {printable(opened.path)} is gone", "bold red")]
    lines = [_headline(node, width), Text(), *_resources(node, glyphs, width), Text()]
    if inside is None or (inside.opened.partition, inside.opened.path) != node.key:
        return [*lines, Text("asking for its applications", "dim")]
    why = [Text(), *_explanation(inside, opened.application, width)]
    space = max(room - len(lines) - len(why), FEW_LINES)
    return [*lines, *_applications(node, inside, opened.application, width, space), *why]


def _headline(node: Node, width: int) -> Text:
    """The path of the queue, and its marks."""
    path = printable(f"{node.key[0]} {node.queue.path}")
    marks = ", ".join(queue_marks(node, ""))
    name = squeeze(path, max(width - cell_len(marks) - GAP, width // 2))
    return Text.assemble((name, "bold"), " " * GAP if marks else "", (marks, "bold red"))


def _resources(node: Node, glyphs: Glyphs, width: int) -> Iterator[Text]:
    """A line for each resource that the queue uses, waits for, or has a setting for."""
    queue = node.queue
    maps = (queue.allocated, queue.guaranteed, queue.max, queue.pending)
    names = sorted({name for amounts in maps for name in amounts} or node.limit, key=rank)
    longest = max((cell_len(label(name)) for name in names), default=0)
    first = max(len(RESOURCE.heading), min(longest, width // 4))
    needed = {column: _needed(column, node, names) for column in COLUMNS}
    room = width - first - 1 - PERCENT
    shown = [*COLUMNS]
    while shown and room - sum(needed[column] for column in shown) < BAR_LEAST:
        shown.pop()
    size = min(max(room - sum(needed[column] for column in shown), BAR_LEAST), BAR_MOST)
    shown.sort(key=IN_ORDER.index)
    head = fill(RESOURCE.heading, first) + " " + fill(BAR_HEADING, size + PERCENT)
    head += "".join(fill(column.heading, needed[column], right=True) for column in shown)
    yield Text(head, "bold")
    for name in names:
        used, due = queue.allocated.get(name, 0), queue.guaranteed.get(name, 0)
        whole = node.whole(name)
        line = Text(fill(squeeze(label(name), first), first) + " ")
        line.append_text(bar(used, due, whole, size, glyphs))
        line.append(fill(percent(used, whole), PERCENT, right=True))
        for column in shown:
            line.append(fill(column.cell(node, name), needed[column], right=True))
        yield line


def _needed(column: Column, node: Node, names: Sequence[str]) -> int:
    """The width of a column in cells, with the gap before it."""
    return GAP + max(len(column.heading), *(cell_len(column.cell(node, name)) for name in names))


def _applications(node: Node, inside: Inside, chosen: str, width: int, space: int) -> Iterator[Text]:
    """The applications around the chosen one, as many as fit."""
    if not node.queue.is_leaf:
        yield Text("applications are in the leaves below this queue", "dim")
        return
    apps = inside.applications
    if not apps:
        yield Text("no applications", "dim")
        return
    names = [app.application_id for app in apps]
    at = names.index(chosen) if chosen in names else 0
    count = max(space - 2, 1)
    top = max(min(at - count // 2, len(apps) - count), 0)
    name_cells = min(max(len("APPLICATION"), *(cell_len(printable(name)) for name in names)), NAME_MOST)
    heads = fill("APPLICATION", name_cells) + f"  {'STATE':10}  {'RUNNING':>7}  {'PENDING':>7}  "
    user_cells = 12 if width - cell_len(heads) >= 30 else 0
    heads += f"{'USER':12}  " if user_cells else ""
    yield Text(fill(heads + "ALLOCATED", width).rstrip(), "bold")
    for app in apps[top : top + count]:
        line = Text(fill(_application(app, name_cells, user_cells), width))
        if app.application_id == names[at]:
            line.stylize("reverse")
        yield line
    if len(apps) > count or inside.is_partial:
        held = f"the first {len(apps):,} of {node.queue.applications:,}"
        total = held if inside.is_partial else f"{len(apps):,}"
        yield Text(f"{at + 1:,} of {total} applications, those that wait first", "dim")


def _application(app: Application, name_cells: int, user_cells: int) -> str:
    running = app.allocation_count - app.placeholder_count
    user = fill(printable(app.user), user_cells) + "  " if user_cells else ""
    return (
        fill(squeeze(printable(app.application_id), name_cells), name_cells)
        + f"  {app.state:10}  {running:7,}  {app.pending_asks:7,}  {user}"
        + human_resources(app.allocated)
    )


def _explanation(inside: Inside, chosen: str, width: int) -> Iterator[Text]:
    """The blocker of the first waiting ask of the chosen application."""
    if not inside.applications:
        return
    name = chosen or inside.applications[0].application_id
    app = next((app for app in inside.applications if app.application_id == name), None)
    answer = inside.explanation
    if app is None or not app.pending_asks:
        yield Text(f"{printable(name)}: no ask waits", "dim")
    elif answer is None or answer.application_id != name:
        yield Text(f"{printable(name)}: asking what it waits for", "dim")
    else:
        yield from _reasons(answer, width)


def _reasons(answer: ExplainResponse, width: int) -> Iterator[Text]:
    """The verdict in a sentence, and each check that blocks the ask."""
    subject = printable(f"{answer.application_id}/{answer.allocation_key}")
    yield Text(squeeze(f"{subject}: {answer.verdict}", width), "bold")
    for line in wrapped(human_text(answer.summary), width, FEW_LINES):
        yield Text(line)
    ahead = (
        f"{answer.asks_ahead:,} asks of the application" * bool(answer.asks_ahead),
        f"{answer.applications_ahead:,} applications of the queue" * bool(answer.applications_ahead),
    )
    if any(ahead):
        text = f"ahead of it: {', '.join(filter(None, ahead))}"
        yield from map(Text, wrapped(text, width, FEW_LINES))
    for check in answer.checks:
        if not check.passed:
            text = f"BLOCK {check.kind} {check.subject} {check.code}: {human_text(check.message)}"
            lines = wrapped(printable(text), width - GAP, FEW_LINES)
            yield Text(lines[0], "red")
            yield from (Text(" " * GAP + line, "red") for line in lines[1:])


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
"""Limit of lines of a reason."""


def help_page(glyphs: Glyphs, width: int, room: int, top: int) -> list[Text]:
    """The help from line `top` on; if it does not fit, the last line counts the hidden lines."""
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
    """Each word with its meaning beside it, or below it for lack of room."""
    label = min(LABEL_CELLS, width // 3)
    for name, meaning in pairs:
        lines = wrapped(meaning, max(width - label, 1), LONGEST)
        if len(name) + 2 > label:
            yield Text(name, "bold")
        else:
            yield Text.assemble((name.ljust(label), "bold"), lines.pop(0))
        yield from (Text(" " * label + line) for line in lines)
