"""Output for terminals of 60, 80, 100 and 140 columns: a table, or a list where it would wrap.

The screens are in `screens`. `pytest --rewrite` writes them.
"""

import re
from collections.abc import Callable
from pathlib import Path

import pytest
from rich.cells import cell_len

from licorne.si.v1.si_pb2 import EventRecord, Quantity, Resource
from licorne.v1.state_pb2 import (
    Allocation,
    Application,
    Ask,
    Check,
    Event,
    ExplainResponse,
    HolderReason,
    Node,
    Preemption,
    PreemptionQueue,
    Queue,
    QueueReservations,
    QueueUsage,
    Reservation,
    Usage,
)
from licorne_cli.nouns.apps import APPS, print_one
from licorne_cli.nouns.events import EVENTS, WIDTHS
from licorne_cli.nouns.explain import print_explanation
from licorne_cli.nouns.nodes import NODES
from licorne_cli.nouns.queues import QUEUES
from licorne_cli.nouns.users import USERS
from licorne_cli.output.printer import Printer
from licorne_cli.output.text import print_table

FOLDER = Path(__file__).parent / "screens"
COLUMNS = (60, 80, 100, 140)
GI = 1024**3
AT = 1_700_000_000 * 10**9
SMALL = {"memory": 4 * GI, "vcore": 4000}
LARGE = {"memory": 3072 * GI, "vcore": 768_000}


def queues() -> None:
    """A full queue, an idle one, and one with a name in wide letters."""
    Printer(QUEUES).print(
        [
            Queue(path="root", state="Active", max=LARGE, allocated=SMALL, running_applications=1),
            Queue(
                path="root.batch",
                state="Active",
                is_leaf=True,
                applications=9,
                running_applications=4,
                max_applications=4,
                share=1.66,
                allocated=SMALL,
                guaranteed={"vcore": 2000},
                max=SMALL,
                pending=LARGE,
            ),
            Queue(path="root.研究", state="Draining", is_leaf=True),
        ]
    )


def nodes() -> None:
    """A node that is reserved for an ask, and one that is drained."""
    kept = Reservation(
        application_id="shop",
        allocation_key="shop-1",
        reason=HolderReason(message="waits for room on the node", lacks={"vcore": 500}),
    )
    Printer(NODES).print(
        [
            Node(
                node_id="machine-1.rack-7.example",
                schedulable=True,
                utilization=0.85,
                allocation_count=11,
                capacity=LARGE,
                available=SMALL,
                reservations=[kept],
            ),
            Node(node_id="machine-2", capacity=SMALL, available=SMALL, occupied={"vcore": 100}),
        ]
    )


def apps() -> None:
    """An application that runs, a gang, and a rejected application."""
    Printer(APPS).print(
        [
            Application(
                application_id="nightly-0001",
                queue="root.batch",
                user="ann",
                state="Running",
                allocated=SMALL,
                allocation_count=12,
                placeholder_count=4,
                pending_asks=62,
            ),
            Application(
                application_id="lost",
                user="bob",
                state="Rejected",
                rejected_message="application 'lost' rejected, cannot create queue 'root.no' "
                "without placement rules",
            ),
        ]
    )


def app() -> None:
    """An application with its asks and allocations."""
    print_one(
        Application(
            application_id="nightly-0001",
            queue="root.batch",
            user="ann",
            state="Running",
            allocated=SMALL,
            allocation_count=1,
            pending_asks=1,
            allocations=[Allocation(allocation_key="nightly-0001-1", node_id="machine-1", resources=SMALL)],
            asks=[Ask(allocation_key="nightly-0001-2", reserved_node="machine-2", priority=7)],
        )
    )


def users() -> None:
    """Users, one of them in two queues, with a limit in one."""
    below = QueueUsage(queue="root.batch", allocated=SMALL, running_applications=["a", "b"])
    root = QueueUsage(queue="root", allocated=SMALL, max=LARGE, max_applications=3, children=[below])
    Printer(USERS).print([Usage(name="somebody@example.com", root=root)])


def events() -> None:
    """Three consecutive events, as they are watched."""
    printer = Printer(EVENTS, widths=WIDTHS)
    printer.print([])
    size = Resource(resources={"vcore": Quantity(value=500), "memory": Quantity(value=GI)})
    for number, record in enumerate(
        (
            EventRecord(
                type=EventRecord.APP,
                eventChangeType=EventRecord.ADD,
                eventChangeDetail=EventRecord.APP_NEW,
                objectID="nightly-0001",
            ),
            EventRecord(
                type=EventRecord.APP,
                eventChangeType=EventRecord.ADD,
                eventChangeDetail=EventRecord.APP_ALLOC,
                objectID="nightly-0001",
                referenceID="nightly-0001-1",
                resource=size,
            ),
            EventRecord(
                type=EventRecord.REQUEST,
                objectID="nightly-0001-2",
                referenceID="nightly-0001",
                message="Request 'nightly-0001-2' does not fit in queue 'root.batch' "
                "(requested map[memory:1073741824 vcore:500], available map[vcore:0])",
            ),
        )
    ):
        record.timestampNano = AT
        printer.print([Event(id=41_000 + number, record=record)])


def explain() -> None:
    """An ask that two checks block in a large cluster, with the causes that exclude nodes."""
    print_explanation(
        ExplainResponse(
            application_id="nightly-0001",
            allocation_key="nightly-0001-2",
            queue="root.batch",
            verdict="pending",
            summary="exceeds the maximum of queue root.batch by memory=1Gi,vcore=500m",
            asks_ahead=103_482,
            applications_ahead=1_204,
            age_bonus=12,
            checks=[
                Check(
                    kind="application",
                    subject="nightly-0001",
                    passed=True,
                    message="application nightly-0001 is Running",
                ),
                Check(
                    kind="queue",
                    subject="root.batch",
                    code="QUEUE_MAX_EXCEEDED",
                    message="exceeds the maximum of queue root.batch by memory=1Gi,vcore=500m",
                    requested={"vcore": 500, "memory": GI},
                    used=SMALL,
                    limit=SMALL,
                ),
                Check(
                    kind="nodes",
                    code="NO_NODE_FITS",
                    message="fits on none of 12000 nodes: 11996 full: vcore, 4 reserved",
                    causes={"full: vcore": 11_996, "reserved": 4},
                    reserved_for=[
                        QueueReservations(
                            queue="root.nightly",
                            nodes=4,
                            idle=1,
                            kept=SMALL,
                            reason=HolderReason(message="waits for room", lacks=SMALL),
                        )
                    ],
                    more_queues=2,
                ),
            ],
        )
    )


def preempted() -> None:
    """A victim, with the queues at the time of its choice."""
    batch = PreemptionQueue(path="root.batch", max=LARGE, allocated=LARGE, preempting=SMALL)
    prod = PreemptionQueue(path="root.prod", guaranteed=LARGE, promised=SMALL)
    print_explanation(
        ExplainResponse(
            application_id="nightly-0001",
            allocation_key="nightly-0001-1",
            queue="root.batch",
            verdict="preempted",
            summary="had to go for shop/shop-1, whose queue root.prod was below its guarantee",
            preemption=Preemption(
                resources=SMALL,
                time=AT,
                released_time=AT,
                beneficiary_allocation_key="shop-1",
                victim_queue=batch,
                beneficiary_queue=prod,
            ),
        )
    )


def long_words() -> None:
    """A table with names longer than any line, which are not split so that they can be copied."""
    print_table(("NAME", "VALUE"), [("a", "b" * 150), ("c", f"{'d' * 50},{'e' * 50},{'f' * 50}")])


SCREENS: tuple[Callable[[], None], ...] = (
    *(queues, nodes, apps, app, users, events, explain, preempted, long_words),
)


@pytest.mark.parametrize("show", SCREENS, ids=lambda show: show.__name__)
def test_narrow_screens_cut_only_names(
    show: Callable[[], None],
    rewrite: bool,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Only the middle of names is cut, and no line wraps unless it is a single word."""
    monkeypatch.setattr("licorne_cli.output.text.is_terminal", lambda _: True)
    sections = []
    for columns in COLUMNS:
        monkeypatch.setenv("COLUMNS", str(columns))
        capsys.readouterr()
        show()
        screen = re.sub(r"\x1b\[[0-9;]*m", "", capsys.readouterr().out)
        for line in screen.splitlines():
            assert cell_len(line) <= columns or len(line.split()) <= 2, line
        lines = "\n".join(line.rstrip() for line in screen.splitlines())
        sections.append(f"{f' {columns} columns '.center(columns, '=')}\n{lines}\n")
    file, found = FOLDER / f"{show.__name__}.txt", "\n".join(sections)
    if rewrite:
        file.write_text(found, encoding="utf-8")
    assert found == file.read_text(encoding="utf-8"), "look at it, and say pytest --rewrite"
