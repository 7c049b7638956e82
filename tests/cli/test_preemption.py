"""Gangs and preemption on the command line: displayed only if present."""

import grpc
import pytest

from licorne.v1.state_pb2 import (
    Allocation,
    Application,
    Ask,
    Check,
    Elastic,
    ExplainResponse,
    Preemption,
    PreemptionQueue,
    Queue,
    TaskGroup,
)
from licorne_cli.nouns.apps import print_one
from licorne_cli.nouns.explain import print_explanation
from licorne_cli.nouns.queues import QUEUES
from licorne_cli.output.printer import Printer
from licorne_cli.output.text import to_plain
from licorne_core.messages.preemption import PreemptionRule
from licorne_server.assembly.server import Server
from support.core.builders import TIME, victim
from support.peers.shim import Shim
from support.peers.town import Shell

AT = 1_700_000_000 * 10**9


def printed(capsys: pytest.CaptureFixture[str]) -> list[str]:
    """The lines so far, blanks made equal."""
    return [" ".join(line.split()) for line in capsys.readouterr().out.splitlines()]


def test_a_gang_shows_its_task_groups(capsys: pytest.CaptureFixture[str]) -> None:
    """The output has the number of placeholders, their outcomes, and their timeout."""
    groups = [
        TaskGroup(name="workers\x1b", count=5, replaced=2, timed_out=1, min_resource={"vcore": 1500}),
        TaskGroup(name="driver", count=1),
    ]
    app = Application(application_id="spark", task_groups=groups, placeholder_deadline=AT)
    print_one(app)
    lines = printed(capsys)
    begin = lines.index("TASK GROUP PLACEHOLDERS REPLACED TIMED OUT LEFT SIZE")
    assert lines[begin + 1 : begin + 3] == ["workers\\x1b 5 2 1 2 vcore=1.5", "driver 1 0 0 1 -"]
    assert "placeholders time out at 2023-11-14T22:13:20.000Z" in lines


def test_an_application_without_a_gang_shows_none(capsys: pytest.CaptureFixture[str]) -> None:
    """Most applications are none."""
    print_one(Application(application_id="shop"))
    assert len(printed(capsys)) == 2


@pytest.mark.parametrize(
    ("elastic", "cell", "line"),
    [
        (
            Elastic(size=8, leaving=2, min=4, max=16, step=2),
            "8 of 4–16",
            "elastic gang: starts with 4 members, grows by 2 up to 16; 2 of its 8 are being stopped",
        ),
        (
            Elastic(min=4, step=1),
            "0 of 4 or more",
            "elastic gang: starts with 4 members, grows by 1 up to any number",
        ),
    ],
)
def test_an_elastic_gang_shows_its_size(
    capsys: pytest.CaptureFixture[str], elastic: Elastic, cell: str, line: str
) -> None:
    """The row has the members relative to minimum and maximum, and the page has the terms."""
    print_one(Application(application_id="spark", elastic=elastic))
    header, row, *others = printed(capsys)
    assert "RUNNING MEMBERS PENDING" in header
    assert f" {cell} " in row
    assert line in others


def test_what_keeps_room_or_has_to_stop_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    """A placeholder, a victim, and an ask that waits for the end of a placeholder."""
    allocations = [
        Allocation(allocation_key="p1", node_id="n1", placeholder=True),
        Allocation(allocation_key="p2", node_id="n1", placeholder=True, stopping="replaced"),
        Allocation(allocation_key="v", node_id="n2", stopping="preempted"),
        Allocation(allocation_key="r", node_id="n2", placeholder_used=True),
    ]
    asks = [
        Ask(allocation_key="r2", replaces="p2"),
        Ask(allocation_key="r3", replaces="p1", assumed_node="n1"),
    ]
    print_one(Application(application_id="spark", allocations=allocations, asks=asks))
    lines = printed(capsys)[-6:]
    assert [line.rpartition(" 0 - -")[0] for line in lines] == [
        "p1 placeholder n1",
        "p2 stopping (replaced) n1",
        "v stopping (preempted) n2",
        "r allocated n2",
        "r2 replaces p2 -",
        "r3 assumed n1",
    ]


def test_queues_show_what_preemption_is_about_to_change(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Two more columns are displayed while any queue has such amounts."""
    quiet, busy = Queue(path="root"), Queue(path="root.a", preempting={"vcore": 2000})
    owed = Queue(path="root.b", promised={"vcore": 500})
    Printer(QUEUES).print([quiet])
    assert "PREEMPTING" not in printed(capsys)[0]
    Printer(QUEUES).print([quiet, busy, owed])
    head, *rows = printed(capsys)
    assert head.endswith("PENDING PREEMPTING PROMISED")
    assert [row.split()[-2:] for row in rows] == [["-", "-"], ["vcore=2", "-"], ["-", "vcore=500m"]]


def queue(path: str) -> PreemptionQueue:
    """A queue as it was when victims were chosen."""
    return PreemptionQueue(
        path=path,
        guaranteed={"vcore": 1000},
        max={"vcore": 5000},
        allocated={"vcore": 3000},
        preempting={"vcore": 2000},
        promised={"vcore": 4000},
    )


@pytest.mark.parametrize(("released", "gone"), [(0, "not gone"), (AT, "gone since 2023-11-14T")])
def test_a_victim_is_explained_with_the_queues_of_that_moment(
    capsys: pytest.CaptureFixture[str], released: int, gone: str
) -> None:
    """The explanation has its amounts, the time of its stop, whether it has ended, and both queues."""
    record = Preemption(
        resources={"vcore": 500},
        priority=-3,
        time=AT,
        beneficiary_allocation_key="k",
        beneficiary_priority=9,
        victim_queue=queue("root.low"),
        beneficiary_queue=queue("root.high"),
        released_time=released,
    )
    answer = ExplainResponse(
        application_id="low", allocation_key="v", queue="root.low", verdict="stopping",
        summary="on node n1 until the RM has stopped it", preemption=record,
    )  # fmt: skip
    print_explanation(answer)
    lines = printed(capsys)
    assert lines[0] == "low/v in root.low: stopping"
    assert lines[2] == "it took vcore=500m with priority -3"
    assert lines[3].startswith(f"told to stop at 2023-11-14T22:13:20.000Z, {gone}")
    assert lines[4] == "the ask that it had to go for has priority 9"
    numbers = "vcore=1 vcore=5 vcore=3 vcore=2 vcore=4"
    assert lines[6:] == [
        "what the queues had then:",
        "QUEUE GUARANTEED MAX ALLOCATED PREEMPTING PROMISED",
        f"root.low {numbers}",
        f"root.high {numbers}",
    ]


def test_a_victim_of_its_own_queue_shows_that_once(capsys: pytest.CaptureFixture[str]) -> None:
    """Where a maximum was enforced there is no ask either, and the queue is displayed once."""
    record = Preemption(time=AT, victim_queue=queue("root.low"), beneficiary_queue=queue("root.low"))
    print_explanation(ExplainResponse(verdict="preempted", preemption=record))
    lines = printed(capsys)
    assert len([line for line in lines if line.startswith("root.low")]) == 1
    assert not any("priority 9" in line or "the ask that" in line for line in lines)


def test_what_became_of_a_key_before_is_said_to_be_past(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """An ask under the key of an earlier victim is distinguished from that victim."""
    record = Preemption(time=AT, victim_queue=queue("root.low"))
    print_explanation(ExplainResponse(verdict="allocated", preemption=record))
    assert "it was preempted before" in printed(capsys)


def test_verdicts_on_gangs_and_preemption_are_rows_like_others(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Each has kind, subject, operands and code; times and causes have labels."""
    checks = [
        Check(kind="nodes", code="NO_NODE_FITS", message="full", causes={"full: vcore": 3}),
        Check(
            kind="gang", subject="workers", code="WAITS_FOR_PLACEHOLDER", message="2 left",
            until=AT + 10**9,
        ),
        Check(
            kind="preemption", subject="root.a", code="OVER_GUARANTEE", message="too much",
            requested={"vcore": 1000}, used={"vcore": 2000}, limit={"vcore": 2500}, until=AT,
            causes={"below guaranteed": 2},
        ),
    ]  # fmt: skip
    print_explanation(ExplainResponse(verdict="pending", checks=checks))
    lines = printed(capsys)
    assert lines[2:4] == [
        "placeholders of its gang time out at 2023-11-14T22:13:21.000Z",
        "preemption is worth another look at 2023-11-14T22:13:20.000Z",
    ]
    checks_at = lines.index("CHECK RESULT WANTED USED LIMIT WHY")
    assert lines[checks_at + 1 :] == [
        "nodes BLOCK - - - NO_NODE_FITS: full",
        "gang workers BLOCK - - - WAITS_FOR_PLACEHOLDER: 2 left",
        "preemption root.a BLOCK vcore=1 vcore=2 vcore=2.5 OVER_GUARANTEE: too much",
        "",
        "NODES OUT BECAUSE",
        "3 full: vcore",
        "",
        "COUNT NO VICTIM BECAUSE",
        "2 below guaranteed",
    ]


def test_json_leaves_nothing_out() -> None:
    """Task groups, victims and promises are included for programs, even if empty or null."""
    assert to_plain(Application())["taskGroups"] == []
    assert to_plain(Queue())["promised"] == {}
    assert to_plain(ExplainResponse())["preemption"] is None
    assert to_plain(ExplainResponse(preemption=Preemption()))["preemption"]["rule"] == ""


async def test_a_key_that_is_gone_is_explained_by_the_ledger(
    server: Server, channel: grpc.aio.Channel, capsys: pytest.CaptureFixture[str]
) -> None:
    """An explanation of a victim after its end names the beneficiary."""
    await Shim(channel).set_up()
    [partition] = server.scheduler.partitions.values()
    partition.ledger.note(victim("v", rule=PreemptionRule.REQUIRED_NODE, released=TIME + 1))
    shell = Shell(server.grpc_address, capsys)
    result = await shell("explain", "low", "v")
    assert result.code == 0
    lines = result.out.splitlines()
    assert lines[0] == "low/v in root.low: preempted"
    assert lines[1] == ("preempted on node n1 for ask k of application app, which may go to no other node")
    assert lines[3].endswith("gone since 2023-11-14T22:13:21.000Z")
    assert (await shell("explain", "low", "never")).code == 3
