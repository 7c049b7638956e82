"""Contents of two pages: an opened queue, and the help."""

from collections.abc import Iterator, Sequence

from rich.console import Group
from rich.table import Table as RichTable
from rich.text import Text

from licorne.v1.state_pb2 import Application, ExplainResponse
from licorne_cli.output.text import human_resources, human_text, printable
from licorne_cli.screen.pieces import label, queue_marks, unit
from licorne_cli.screen.table import Table, resource_rows
from licorne_cli.screen.tree import Inside, QueueNode, Wanted, rank

HEADINGS = ("APPLICATION", "STATE", "RUNNING", "PENDING", "USER", "ALLOCATED")
ASKING = "asking for its applications"


def queue_facts(node: QueueNode, width: int) -> Group:
    """Path and marks of a queue, and a line for each resource that is used, requested or limited."""
    queue = node.queue
    maps = (queue.allocated, queue.guaranteed, queue.max, queue.pending)
    names = sorted({name for amounts in maps for name in amounts} or node.limit, key=rank)
    rows = resource_rows(node, names)
    path, marks = printable(f"{node.key[0]} {queue.path}"), ", ".join(queue_marks(node, ""))
    head = Text.assemble((path, "bold"), "  " if marks else "", (marks, "bold red"))
    return Group(head, Text(), Table.of_resources(rows, width).printed(rows))


def status_text(wanted: Wanted) -> Iterator[str]:
    """The viewer's choices, as text."""
    if wanted.text:
        yield f"filter: {wanted.text}"
    if wanted.order != "name":
        yield f"sorted by {wanted.order}"
    resource = wanted.resource
    yield f"bars: {label(resource)}, in {unit(resource)}" if resource else "bars: dominant resource"


def application_cells(app: Application) -> list[Text]:
    """The cells of an application, in the order of `HEADINGS`."""
    running = app.allocation_count - app.placeholder_count
    return [
        Text(printable(app.application_id)),
        Text(app.state),
        Text(f"{running:,}", justify="right"),
        Text(f"{app.pending_asks:,}", justify="right"),
        Text(printable(app.user)),
        Text(human_resources(app.allocated)),
    ]


def count_of(node: QueueNode, inside: Inside | None) -> str:
    """The numbers of listed and of all applications, or the reason why none are listed."""
    if inside is None:
        return ASKING
    if not node.queue.is_leaf:
        return "applications are in the leaves below this queue"
    held = len(inside.applications)
    if not held:
        return "no applications"
    listed = f"the first {held:,} of {node.queue.applications:,}" if inside.is_partial else f"{held:,}"
    return f"{listed} {'application' if listed == '1' else 'applications'}, those that wait first"


def explanation(inside: Inside, chosen: str) -> Text:
    """The reason why the first ask of the chosen application waits."""
    app = next((app for app in inside.applications if app.application_id == chosen), None)
    answer = inside.explanation
    if app is None:
        return Text()
    if not app.pending_asks:
        return Text(f"{printable(chosen)}: no ask waits", "dim")
    if answer is None or answer.application_id != chosen:
        return Text(f"{printable(chosen)}: asking what it waits for", "dim")
    return Text("\n").join(_reasons(answer))


def _reasons(answer: ExplainResponse) -> Iterator[Text]:
    """The verdict in a sentence, and each check that blocks the ask."""
    subject = printable(f"{answer.application_id}/{answer.allocation_key}")
    yield Text(f"{subject}: {answer.verdict}", "bold")
    if answer.summary:
        yield Text(human_text(answer.summary))
    ahead = (
        f"{answer.asks_ahead:,} asks of the application" * bool(answer.asks_ahead),
        f"{answer.applications_ahead:,} applications of the queue" * bool(answer.applications_ahead),
    )
    if any(ahead):
        yield Text(f"ahead of it: {', '.join(filter(None, ahead))}")
    for check in answer.checks:
        if not check.passed:
            text = f"BLOCK {check.kind} {check.subject} {check.code}: {human_text(check.message)}"
            yield Text(printable(text), "red")


KEYS = (
    ("arrows, pgup, pgdn", "move the cursor; so do k, j, and home, end, g, G"),
    ("enter, a click", "open the queue: its applications, and what they wait for"),
    ("esc", "back; in the table: no filter"),
    ("left, right, space", "hide and show the queues below a queue"),
    ("-, +", "hide, show all that is below the first level"),
    ("/", "type a part of a path or partition: only queues that have it are shown"),
    ("s", "sort queues of one parent by name, use, pending, applications"),
    ("m", "which resource is shown: of each queue the one of which it uses most, or one for all"),
    ("q, Ctrl-C", "quit"),
)
WORDS = (
    ("USE OF MAX", "how much is used of the maximum. The bar is full at the maximum, not before"),
    ("MAX", "in brackets if it is not the queue's own, but that of a queue above, or of the cluster"),
    ("RESOURCE, RES", "the resource of the bar and the figures of a queue"),
    ("PENDING", "what asks wait for"),
    ("APPS", "applications that run, and all; of a parent the running ones below it"),
    ("cores", "of vcore, 250m is a quarter; bytes in Ki, Mi, Gi, powers of 1024"),
    ("at max", "it has all that its maximum allows, of the resource that is named or shown"),
    ("over max", "it has more: its maximum was lowered"),
    ("full", "all of the cluster is allocated"),
    ("parent at max", "something waits, and a queue above it is at its maximum"),
    ("at max apps", "no other application may run"),
    ("preempting", "usage of victims that were asked to stop"),
    ("promised", "room that is kept for asks for which victims were asked to stop"),
    ("draining, stopped", "the queue takes no new applications"),
    ("RM lost", "the resource manager has no stream open"),
    ("on hold", "nothing is scheduled for the RM, and why"),
)


def help_text() -> Group:
    """The keys and the terms of the screen."""
    return Group(_meanings(KEYS), Text(), _meanings(WORDS))


def _meanings(pairs: Sequence[tuple[str, str]]) -> RichTable:
    table = RichTable(box=None, show_header=False, padding=(0, PADDING, 0, 0), pad_edge=False)
    table.add_column(style="bold", no_wrap=True, width=LABEL_CELLS)
    table.add_column()
    for pair in pairs:
        table.add_row(*pair)
    return table


LABEL_CELLS, PADDING = 18, 2
