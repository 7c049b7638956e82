"""The outbox: order, joining, numbers and bounds."""

import asyncio

import pytest

from licorne_server.process.bounds import OutboxBounds
from licorne_server.rms.outbox import ENTRY_COST, Outbox
from licorne_server.wire.responses import MAX_RESPONSE_BYTES, MAX_RESPONSE_ITEMS, Kind, Payload

SMALL = OutboxBounds(high=10_000, low=4_000, cap=50_000)
ALL = tuple(Kind)


def payload(data: bytes, sort: str = "new", kind: Kind = Kind.ALLOCATIONS, items: int = 1) -> Payload:
    """A message to send."""
    return Payload(kind, sort, data, items)


@pytest.fixture
def holds() -> list[bool]:
    """Records the holds of the RM that the outbox requests."""
    return []


@pytest.fixture
def outbox(holds: list[bool]) -> Outbox:
    """An empty outbox with small bounds."""
    return Outbox(holds.append, SMALL)


def drain(outbox: Outbox, kinds: tuple[Kind, ...] = ALL) -> list[tuple[Kind, bytes]]:
    """Everything that would be sent, in order."""
    sent = []
    while (batch := outbox.peek(kinds)) is not None:
        sent.append((batch.kind, batch.data))
        outbox.sent(batch)
    return sent


def send_one(outbox: Outbox, number: int) -> None:
    """Send the next message under a number."""
    batch = outbox.peek(ALL)
    assert batch is not None
    outbox.sending(batch, number)


def test_consecutive_messages_of_a_sort_are_joined(outbox: Outbox) -> None:
    """Consecutive messages of one sort are joined; another sort in between keeps its place."""
    for data, sort in ((b"a", "new"), (b"b", "new"), (b"c", "released"), (b"d", "new")):
        outbox.put(payload(data, sort))
    assert drain(outbox) == [(Kind.ALLOCATIONS, part) for part in (b"ab", b"c", b"d")]


def test_kinds_keep_their_order_on_one_stream(outbox: Outbox) -> None:
    """A stream of all kinds sends messages in order; nothing is joined across another kind."""
    outbox.put(payload(b"a"))
    outbox.put(payload(b"n", "nodes", Kind.NODES))
    outbox.put(payload(b"b"))
    assert [data for _, data in drain(outbox)] == [b"a", b"n", b"b"]


def test_streams_of_a_kind_do_not_wait_for_others(outbox: Outbox) -> None:
    """A stream of one kind sends its messages in order, and leaves those of other kinds."""
    outbox.put(payload(b"n", "nodes", Kind.NODES))
    outbox.put(payload(b"a"))
    outbox.put(payload(b"b"))
    assert drain(outbox, (Kind.ALLOCATIONS,)) == [(Kind.ALLOCATIONS, b"ab")]
    assert outbox.messages == 1


@pytest.mark.parametrize(
    ("size", "items"), [(1, MAX_RESPONSE_ITEMS // 2), (MAX_RESPONSE_BYTES // 2, 1)], ids=["items", "bytes"]
)
def test_joined_messages_are_bounded(size: int, items: int) -> None:
    """No joined message exceeds the size of a response."""
    outbox = Outbox(lambda _: None, OutboxBounds(high=2**20, low=2**10, cap=2**20))
    for _ in range(3):
        outbox.put(payload(bytes(size), items=items))
    assert [len(data) for _, data in drain(outbox)] == [2 * size, size]


def test_unsent_message_stays(outbox: Outbox) -> None:
    """A message that was peeked at and not sent remains the next one."""
    outbox.put(payload(b"a"))
    first = outbox.peek(ALL)
    outbox.put(payload(b"b", "released"))
    assert outbox.peek(ALL) == first


def test_a_full_outbox_puts_the_rm_on_hold(outbox: Outbox, holds: list[bool]) -> None:
    """Above high water the RM is on hold and its reader waits; below low water both continue."""
    while not holds:
        outbox.put(payload(bytes(1000), sort=f"{outbox.messages}"))
    assert holds == [True]
    assert not outbox.room.is_set()
    drain(outbox)
    assert holds == [True, False]
    assert outbox.room.is_set()


def test_unacknowledged_messages_put_the_rm_on_hold(outbox: Outbox, holds: list[bool]) -> None:
    """Unacknowledged messages put the RM on hold, but its reader continues, as it reads acknowledgements."""
    number = 0
    while not holds:
        number += 1
        outbox.put(payload(bytes(1000)))
        send_one(outbox, number)
    assert outbox.room.is_set()
    outbox.acknowledge(number)
    assert holds == [True, False]
    assert outbox.size == 0


def test_sent_messages_are_kept_until_acknowledged(outbox: Outbox) -> None:
    """A resumed stream gets exactly the messages after the last acknowledged number."""
    for number in (1, 2, 3):
        outbox.put(payload(b"%d" % number))
        send_one(outbox, number)
    outbox.acknowledge(1)
    after = outbox.after(1)
    assert after is not None
    assert [(sent.number, sent.data) for sent in after] == [(2, b"2"), (3, b"3")]
    assert outbox.after(3) == []


def test_an_rm_that_never_acknowledges_loses_its_resumption_only(outbox: Outbox) -> None:
    """At the cap sent messages are dropped, queued ones are kept, and memory is bounded."""
    number = 0
    while outbox.after(0) is not None:
        number += 1
        outbox.put(payload(bytes(1000)))
        send_one(outbox, number)
        assert outbox.size < SMALL.cap + 2_000
    assert not outbox.overflowed
    assert outbox.after(number) is not None


def test_an_unread_outbox_is_dropped_at_the_cap(outbox: Outbox) -> None:
    """Beyond the cap all messages are dropped, and none are accepted any more."""
    while not outbox.overflowed:
        outbox.put(payload(bytes(1000)))
    assert (outbox.size, outbox.messages) == (0, 0)
    outbox.put(payload(b"late"))
    assert outbox.peek(ALL) is None
    assert outbox.after(0) is None
    outbox.clear()
    outbox.put(payload(b"anew"))
    assert drain(outbox) == [(Kind.ALLOCATIONS, b"anew")]


def test_small_messages_are_bounded_in_number(outbox: Outbox) -> None:
    """The number of messages is bounded as well."""
    count = 0
    while not outbox.overflowed:
        outbox.put(payload(b""))
        count += 1
    assert count <= SMALL.cap // ENTRY_COST + 1


async def test_waiting_ends_with_the_next_message(outbox: Outbox) -> None:
    """A waiting writer is woken by the next message."""
    waiting = asyncio.create_task(outbox.wait(ALL))
    await asyncio.sleep(0)
    assert not waiting.done()
    outbox.put(payload(b"a"))
    await waiting


async def test_a_message_wakes_the_writer_of_its_kind_only(outbox: Outbox) -> None:
    """Messages of other kinds do not wake a stream; `wake` wakes all."""
    kinds = (Kind.NODES, Kind.APPLICATIONS, Kind.ALLOCATIONS)
    waiting = {kind: asyncio.create_task(outbox.wait((kind,))) for kind in kinds}
    await asyncio.sleep(0)
    outbox.put(payload(b"a"))
    for _ in range(3):
        await asyncio.sleep(0)
    assert [kind for kind, task in waiting.items() if task.done()] == [Kind.ALLOCATIONS]
    outbox.wake()
    await asyncio.gather(*waiting.values())


def check(number: int, items: int = 1) -> Payload:
    """Predicate checks, the last of which has this number."""
    return Payload(Kind.CHECKS, "checks", b"%d" % number, items, last_check=number)


def test_predicate_checks_come_last(outbox: Outbox) -> None:
    """Even later messages precede checks, so that the RM judges with full knowledge."""
    outbox.put(check(1))
    outbox.put(payload(b"a"))
    outbox.put(check(2))
    outbox.put(payload(b"drain", "drain", Kind.SESSION))
    outbox.put(payload(b"b"))
    assert [data for _, data in drain(outbox)] == [b"a", b"drain", b"b", b"12"]


def test_checks_do_not_prevent_joining(outbox: Outbox) -> None:
    """Messages of another kind are joined across checks."""
    outbox.put(payload(b"a"))
    outbox.put(check(1))
    outbox.put(payload(b"b"))
    assert [data for _, data in drain(outbox)] == [b"ab", b"1"]


def test_joined_checks_have_the_last_number(outbox: Outbox) -> None:
    """A batch has the number of its last check, so that the time can begin when it was written."""
    for number, items in ((3, 3), (500, 497), (990, 490), (1001, 11)):
        outbox.put(check(number, items))
    first = outbox.peek(ALL)
    assert first is not None
    assert (first.items, first.last_check) == (990, 990)
    outbox.sent(first)
    second = outbox.peek(ALL)
    assert second is not None
    assert (second.items, second.last_check) == (11, 1001)
    outbox.sent(second)
    outbox.put(payload(b"a"))
    last = outbox.peek(ALL)
    assert last is not None
    assert last.last_check == 0


def test_repeated_checks_have_the_last_number(outbox: Outbox) -> None:
    """A batch that is stored for acknowledgement has the number of its last check as well."""
    for number, message in enumerate((payload(b"a"), check(7)), 1):
        outbox.put(message)
        send_one(outbox, number)
    again = outbox.after(0)
    assert again is not None
    kept = [(sent.kind, sent.last_check) for sent in again]
    assert kept == [(Kind.ALLOCATIONS, 0), (Kind.CHECKS, 7)]


def test_streams_of_other_kinds_never_get_checks(outbox: Outbox) -> None:
    """Checks are only sent over a session."""
    outbox.put(check(1))
    assert outbox.peek((Kind.ALLOCATIONS,)) is None


def victims(number: int) -> Payload:
    """A preemption check of this number."""
    return Payload(Kind.VICTIMS, "victims", b"%d" % number, 1, last_check=number)


def test_checks_of_both_kinds_are_sent_in_order(outbox: Outbox) -> None:
    """Checks of both kinds are sent in the order of their numbers, and joined by kind."""
    for message in (check(1), check(2), victims(3), payload(b"a"), victims(4), check(5)):
        outbox.put(message)
    assert outbox.messages == 6
    assert drain(outbox) == [
        (Kind.ALLOCATIONS, b"a"),
        (Kind.CHECKS, b"12"),
        (Kind.VICTIMS, b"34"),
        (Kind.CHECKS, b"5"),
    ]
    assert outbox.size == 0


def test_between_the_water_marks_nothing_changes(outbox: Outbox, holds: list[bool]) -> None:
    """The hold of an RM ends below low water, not as soon as it is below high water."""
    for number in range(12):
        outbox.put(payload(bytes(1000), sort=f"{number}"))
    sizes = []
    while holds == [True]:
        batch = outbox.peek(ALL)
        assert batch is not None
        sizes.append(outbox.size)
        outbox.sent(batch)
    assert holds == [True, False]
    assert outbox.size < SMALL.low <= min(sizes)


def test_an_older_acknowledgement_restores_nothing(outbox: Outbox) -> None:
    """An acknowledged message is dropped, even if an earlier number is acknowledged after it."""
    for number in (1, 2, 3):
        outbox.put(payload(bytes(10)))
        send_one(outbox, number)
    outbox.acknowledge(2)
    outbox.acknowledge(1)
    assert outbox.after(1) is None
    left = outbox.after(2)
    assert left is not None
    assert [sent.number for sent in left] == [3]


def test_a_large_message_is_accepted_by_an_empty_outbox(outbox: Outbox) -> None:
    """A message that can wait elsewhere is accepted above low water if the outbox is empty."""
    assert outbox.offer(payload(bytes(100)))
    assert not outbox.offer(payload(bytes(SMALL.low)))
    send_one(outbox, 1)
    assert not outbox.offer(payload(bytes(SMALL.low)))
    outbox.acknowledge(1)
    assert outbox.offer(payload(bytes(SMALL.low)))
