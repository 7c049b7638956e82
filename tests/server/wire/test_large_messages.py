"""However large a message is, and whatever it has, it is read part by part.

Work is counted in lines of Python that run between two turns of all other tasks.
"""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import grpc
import pytest

from licorne.si.v1 import si_pb2 as si
from licorne.v1 import session_pb2 as sp
from licorne.v1 import state_pb2 as pb
from licorne_core.messages.commands import UpdateAllocations, UpdateApplications
from licorne_core.values.ids import RmId
from licorne_server.wire import checks as convert_checks
from licorne_server.wire.asks import AskingReader, AskReader
from licorne_server.wire.caps import (
    MAX_APPLICATION_TAGS,
    MAX_CLASS_TAGS,
    MAX_GROUPS,
    MAX_NEEDS,
    MAX_REFUSALS,
    MAX_REQUEST_FIELDS,
    MAX_UPDATE_FIELDS,
)
from licorne_server.wire.checks import (
    PART_ANSWERS,
    PART_JUDGED,
    PART_REFUSALS,
    predicate_answers,
    preemption_answers,
)
from licorne_server.wire.errors import CallError, Malformed
from licorne_server.wire.framing import (
    ALLOCATION_REQUEST,
    APPLICATION_REQUEST,
    NODE_REQUEST,
    Pace,
    check_fields,
    delimited,
    open_envelope,
    split,
)
from licorne_server.wire.requests import (
    COMMAND_AMOUNTS,
    COMMAND_BYTES,
    Steps,
    allocation_batch,
    application_batch,
    node_batch,
)
from licorne_server.wire.responses import MAX_RESPONSE_ITEMS
from support.core.steps import at_once, pace, stretches
from support.peers.shim import Call, RawSession, Shim, ask, node, resource

RM = RmId("rm")
KIB = 1024
LINES = 300_000
"""The maximum of lines in a part of the work; each message here takes many times that in total."""

KEY = delimited(1, b"k")
APP = delimited(9, b"app")
RUNS = delimited(8, b"n0")
NOBODY_KNOWS = b"\xb8\x06\x05"
Work = Coroutine[Any, Any, Any]


def entries(field: int, count: int) -> bytes:
    """This number of entries of a map of texts, with distinct keys."""
    return b"".join(delimited(field, delimited(1, b"%x" % number)) for number in range(count))


async def read_nodes(raw: bytes) -> Steps:
    """The result of a NodeRequest."""
    return await node_batch(AskReader(RM), await split(raw, NODE_REQUEST, pace()), 500, pace())


async def read_applications(raw: bytes) -> Steps:
    """The result of an ApplicationRequest."""
    return await application_batch(AskReader(RM), await split(raw, APPLICATION_REQUEST, pace()), 500, pace())


async def read_asks(raw: bytes, reader: AskReader | None = None) -> Steps:
    """The result of an AllocationRequest."""
    request = await split(raw, ALLOCATION_REQUEST, pace())
    return await allocation_batch(reader or AskReader(RM), request, 500, pace())


def one_ask(rest: bytes) -> Work:
    """Read a message with one ask."""
    return read_asks(delimited(4, KEY + rest))


WORST: dict[str, Callable[[], Work]] = {
    "unknown fields": lambda: one_ask(NOBODY_KNOWS * 50_000),
    "unknown fields of what runs": lambda: one_ask(RUNS + NOBODY_KNOWS * 50_000),
    "empty tags": lambda: one_ask(b"\x12\x00" * 50_000),
    "tags": lambda: one_ask(entries(2, 40_000) + APP),
    "tags of what runs, one of them bad": lambda: one_ask(
        RUNS + entries(2, 40_000) + delimited(2, delimited(1, b"\n")) + APP
    ),
    "amounts": lambda: one_ask(delimited(5, b"\x0a\x00" * 90_000)),
    "lists of amounts": lambda: one_ask(b"\x2a\x00" * 40_000),
    "items below 256 KiB": lambda: read_asks(delimited(4, KEY + RUNS + b"\x12\x00" * (120 * KIB))),
    "small items with a bad tag": lambda: read_asks(
        delimited(4, KEY + APP + RUNS + entries(2, 800) + delimited(2, delimited(1, b"\n"))) * 100
    ),
    "items without anything": lambda: read_asks(b"\x22\x00" * 15_000),
    "unknown fields of a request": lambda: read_asks(NOBODY_KNOWS * 40_000),
    "unknown fields of releases": lambda: read_asks(delimited(2, NOBODY_KNOWS * 40_000)),
    "additions and removals by turns": lambda: read_applications(b"\x0a\x00\x12\x00" * 10_000),
    "attributes": lambda: read_nodes(delimited(1, KEY + entries(3, 40_000))),
    "tags of an application": lambda: read_applications(delimited(1, KEY + entries(5, 40_000))),
    "refusals": lambda: predicate_answers(
        RM, delimited(1, b"\x08\x01" + b"\x12\x03\x0a\x01n" * 1_000) * 100, pace()
    ),
    "answers about victims": lambda: preemption_answers(
        RM,
        delimited(1, b"".join(delimited(2, delimited(1, b"%d" % n)) for n in range(100))) * 2_000,
        pace(),
    ),
}


@pytest.mark.pure
@pytest.mark.parametrize("what", WORST)
def test_other_tasks_run_while_a_message_is_read(what: str) -> None:
    """Between two turns only a bounded part of a message is read."""
    counts = stretches(WORST[what](), CallError)
    assert max(counts) < LINES
    assert sum(counts) > 2 * LINES


@pytest.mark.pure
async def test_large_messages_take_turns() -> None:
    """While several messages are read, one part of one of them is read in each turn of the loop."""
    gate = asyncio.Lock()
    turns = parts = 0

    class Counting(Pace):
        async def rest(self) -> None:
            nonlocal parts
            await super().rest()
            parts += 1

    raw = NOBODY_KNOWS * 50_000
    reading = [asyncio.create_task(split(raw, ALLOCATION_REQUEST, Counting(gate))) for _ in range(8)]
    while not all(task.done() for task in reading):
        await asyncio.sleep(0)
        turns += 1
    assert parts >= 8 * 12
    assert turns >= parts


@pytest.mark.parametrize(
    ("work", "problem"),
    [
        (
            lambda: predicate_answers(RM, delimited(1, NOBODY_KNOWS * 1_000_000), pace()),
            f"PredicateAnswer has more than {MAX_REFUSALS + 100} fields",
        ),
        (
            lambda: preemption_answers(RM, delimited(1, b"\x12\x00" * 1_000_000), pace()),
            f"PreemptionAnswer has more than {MAX_NEEDS} nodes, no check asks for more",
        ),
    ],
)
def test_an_answer_of_very_many_fields_is_refused(work: Callable[[], Work], problem: str) -> None:
    """The fields of an answer are counted only up to the bound."""
    counts = stretches(work(), CallError)
    assert sum(counts) < LINES
    with pytest.raises(CallError, match=problem):
        at_once(work())


def test_refusals_are_bounded_together(monkeypatch: pytest.MonkeyPatch) -> None:
    """Many answers may refuse many nodes, but their total is bounded."""
    monkeypatch.setattr(convert_checks, "MAX_ALL_REFUSALS", 20)
    refusing = delimited(1, b"\x08\x01" + b"\x12\x03\x0a\x01n" * 10)
    [command] = at_once(predicate_answers(RM, refusing * 2, pace()))
    assert sum(len(answer.refused) for answer in command.answers) == 20
    with pytest.raises(CallError, match="PredicateAnswers refuses more than 20 nodes"):
        at_once(predicate_answers(RM, refusing * 3, pace()))


def test_many_answers_reach_the_core_in_parts() -> None:
    """Each command has few answers, all commands together have all of them, in order."""
    refusing = b"".join(
        delimited(1, b"\x08" + bytes((number,)) + b"\x12\x03\x0a\x01n" * 1_000) for number in range(1, 11)
    )
    commands = at_once(predicate_answers(RM, refusing, pace()))
    sizes = [sum(len(answer.refused) for answer in command.answers) for command in commands]
    assert max(sizes) <= PART_REFUSALS
    assert [answer.check for command in commands for answer in command.answers] == [*range(1, 11)]
    agreed = at_once(predicate_answers(RM, delimited(1, b"\x08\x01") * 150, pace()))
    assert [len(command.answers) for command in agreed] == [PART_JUDGED, PART_JUDGED, 22]
    victims = at_once(preemption_answers(RM, delimited(1, b"\x08\x01") * 50, pace()))
    assert [len(command.answers) for command in victims] == [PART_ANSWERS, PART_ANSWERS, 10]


def asks_of(steps: Steps) -> list[int]:
    """The number of asks of each command."""
    commands = [step for step in steps.steps if isinstance(step, UpdateAllocations)]
    return [len(command.asks) for command in commands]


def test_the_bytes_of_a_command_are_bounded() -> None:
    """Unusually large items are divided over more commands."""
    item = ask("k", allocationTags={"note": "x" * 50 * KIB})
    raw = si.AllocationRequest(allocations=[item] * 20).SerializeToString()
    counts = asks_of(at_once(read_asks(raw)))
    assert sum(counts) == 20
    assert max(counts) == COMMAND_BYTES // (50 * KIB)


def test_the_amounts_of_a_command_are_bounded() -> None:
    """Asks of different sizes cost by their amounts; asks of one size are cheap."""

    def sized(number: int) -> si.Allocation:
        amounts = {f"r{kind}": 1 + number for kind in range(100)}
        return ask(f"k{number}", resourcePerAlloc=resource(**amounts))

    raw = si.AllocationRequest(allocations=map(sized, range(50))).SerializeToString()
    assert max(asks_of(at_once(read_asks(raw)))) == COMMAND_AMOUNTS // 100
    raw = si.AllocationRequest(allocations=[sized(1)] * 50).SerializeToString()
    assert asks_of(at_once(read_asks(raw))) == [50]


def test_rejections_are_sent_in_parts() -> None:
    """Each answer has at most the number of items of a response."""
    steps = at_once(read_nodes(b"\x0a\x00" * (MAX_RESPONSE_ITEMS + 1)))
    assert len(steps.steps) == 2
    assert steps.refused == MAX_RESPONSE_ITEMS + 1


@pytest.mark.parametrize(
    ("new", "reason"),
    [
        (
            si.AddApplicationRequest(
                applicationID="a",
                tags={f"{number:x}": "" for number in range(MAX_APPLICATION_TAGS + 1)},
            ),
            f"tags has {MAX_APPLICATION_TAGS + 1} entries, at most {MAX_APPLICATION_TAGS} are",
        ),
        (
            si.AddApplicationRequest(
                applicationID="a",
                ugi=si.UserGroupInformation(groups=[""] * (MAX_GROUPS + 1)),
            ),
            f"ugi.groups has {MAX_GROUPS + 1} entries, at most {MAX_GROUPS} are allowed",
        ),
    ],
)
def test_application_with_too_many_entries_is_refused(new: si.AddApplicationRequest, reason: str) -> None:
    """The reason of the rejection has the field, the number and the bound."""
    raw = si.ApplicationRequest(new=[new]).SerializeToString()
    [step] = at_once(read_applications(raw)).steps
    assert not isinstance(step, UpdateApplications)
    assert reason in repr(step)
    assert "'a'" in repr(step)


@pytest.mark.parametrize(("tags", "shares"), [(MAX_CLASS_TAGS, True), (MAX_CLASS_TAGS + 1, False)])
def test_asks_of_very_many_tags_share_no_answers(tags: int, shares: bool) -> None:
    """Asks with very many tags share no answers, because comparing all tags takes long."""
    reader = AskingReader(RM, sp.BY_ALL_TAGS)
    raw = b"".join(delimited(4, delimited(1, key) + entries(2, tags) + APP) for key in (b"a", b"b"))
    [command] = at_once(read_asks(raw, reader)).steps
    assert isinstance(command, UpdateAllocations)
    one, other = command.asks
    assert (one.ask_class == other.ask_class) is shares


def test_the_fields_of_an_envelope_are_bounded() -> None:
    """The number of fields in an UpdateRequest is bounded."""
    assert open_envelope(b"\x78\x01" * MAX_UPDATE_FIELDS)[0] == 0
    with pytest.raises(Malformed, match=f"more than {MAX_UPDATE_FIELDS} fields in one request"):
        open_envelope(b"\x78\x01" * (MAX_UPDATE_FIELDS + 1))


def test_nested_fields_are_counted_together() -> None:
    """The fields of a message, and of the messages around it, are counted together."""
    inner = delimited(6, b"\x78\x01" * (MAX_REQUEST_FIELDS // 2))
    check_fields("Hello", delimited(3, inner), (3, 6))
    check_fields("Hello", delimited(3, inner * 3), (3,))
    with pytest.raises(CallError, match=f"Hello has more than {MAX_REQUEST_FIELDS} fields"):
        check_fields("Hello", delimited(3, inner * 2), (3, 6))


# Over the wire, beside another RM


async def test_item_of_unknown_fields_is_rejected_by_name(
    shim: Shim, streams: tuple[Call, Call, Call], neighbour: Any
) -> None:
    """Unknown fields count like others, and another RM is served meanwhile."""
    item = KEY + NOBODY_KNOWS * 1_000_000
    raw = si.AllocationRequest(rmID="rm").SerializeToString() + delimited(4, item)
    await streams[0].send(raw)
    await neighbour()
    [rejected] = (await streams[0].next()).rejectedAllocations
    assert rejected.allocationKey == "k"
    assert rejected.reason == "allocation has more than 200000 entries"


async def test_a_tag_with_extra_bytes_is_read(
    shim: Shim, streams: tuple[Call, Call, Call], neighbour: Any
) -> None:
    """An item may have a field number that is written with extra bytes."""
    raw = si.NodeRequest(rmID="rm").SerializeToString()
    item = node("late", vcore=1).SerializeToString()
    await streams[2].send(raw + b"\x8a\x00" + delimited(1, item)[1:])
    await neighbour()
    assert [answer.nodeID for answer in (await streams[2].next()).accepted] == ["late"]


async def test_registration_of_very_many_entries_is_refused(
    shim: Shim, session: RawSession, neighbour: Any
) -> None:
    """A registration with too many entries is refused over `si.v1` and sessions, with the bound."""
    extra = {f"{number:x}": "" for number in range(MAX_REQUEST_FIELDS + 1)}
    with pytest.raises(grpc.aio.AioRpcError) as refused:
        await shim.register(extraConfig=extra)
    assert refused.value.code() is grpc.StatusCode.INVALID_ARGUMENT
    bound = f"has more than {MAX_REQUEST_FIELDS} fields"
    assert refused.value.details() == f"RegisterResourceManagerRequest {bound}"
    registration = si.RegisterResourceManagerRequest(extraConfig=extra)
    call = await session.hello(registration=registration)
    assert await call.ending() == (grpc.StatusCode.INVALID_ARGUMENT, f"Hello {bound}")
    await neighbour()


async def test_read_of_very_many_fields_is_refused(channel: grpc.aio.Channel, neighbour: Any) -> None:
    """Requests that only read have the same bound of fields."""
    list_nodes: Any = channel.unary_unary("/licorne.v1.State/ListNodes")
    raw = pb.ListNodesRequest().SerializeToString() + NOBODY_KNOWS * 1_000_000
    with pytest.raises(grpc.aio.AioRpcError) as refused:
        await list_nodes(raw)
    assert refused.value.code() is grpc.StatusCode.INVALID_ARGUMENT
    bound = f"has more than {MAX_REQUEST_FIELDS} fields"
    assert refused.value.details() == f"ListNodesRequest {bound}"
    await neighbour()


async def test_update_request_of_very_many_fields_ends_its_stream(
    session: RawSession, neighbour: Any
) -> None:
    """The stream ends with the reason, and another RM is served."""
    call, _ = await session.begin()
    await call.send(NOBODY_KNOWS * 1_000_000)
    code, text = await call.ending()
    assert code is grpc.StatusCode.INVALID_ARGUMENT
    assert text == f"malformed message: UpdateRequest: more than {MAX_UPDATE_FIELDS} fields in one request"
    await neighbour()
