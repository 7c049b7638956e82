"""The outbox where bounds meet: between water marks, old acknowledgements, large messages."""

from licorne_server.process.bounds import OutboxBounds
from licorne_server.rms.outbox import Outbox
from licorne_server.wire.responses import Kind, Payload

SMALL = OutboxBounds(high=10_000, low=4_000, cap=50_000)
ALL = tuple(Kind)


def payload(size: int, sort: str = "new") -> Payload:
    """A message of so many bytes."""
    return Payload(Kind.ALLOCATIONS, sort, bytes(size), 1)


def send_one(outbox: Outbox, number: int) -> None:
    """Send the next message under a number."""
    batch = outbox.peek(ALL)
    assert batch is not None
    outbox.sending(batch, number)


def test_between_the_water_marks_nothing_changes() -> None:
    """An RM that is held is let go below low water, not as soon as it is below high water."""
    holds: list[bool] = []
    outbox = Outbox(holds.append, SMALL)
    for number in range(12):
        outbox.put(payload(1000, sort=f"{number}"))
    sizes = []
    while holds == [True]:
        batch = outbox.peek(ALL)
        assert batch is not None
        sizes.append(outbox.size)
        outbox.sent(batch)
    assert holds == [True, False]
    assert outbox.size < SMALL.low <= min(sizes)


def test_an_older_acknowledgement_brings_nothing_back() -> None:
    """What was acknowledged is gone, also when an earlier number is acknowledged behind it."""
    outbox = Outbox(lambda _: None, SMALL)
    for number in (1, 2, 3):
        outbox.put(payload(10))
        send_one(outbox, number)
    outbox.acknowledge(2)
    outbox.acknowledge(1)
    assert outbox.after(1) is None
    left = outbox.after(2)
    assert left is not None
    assert [sent.number for sent in left] == [3]


def test_whatever_is_alone_is_taken() -> None:
    """A message beyond low water that can wait elsewhere is taken once nothing else is there."""
    outbox = Outbox(lambda _: None, SMALL)
    assert outbox.offer(payload(100))
    assert not outbox.offer(payload(SMALL.low))
    send_one(outbox, 1)
    assert not outbox.offer(payload(SMALL.low))
    outbox.acknowledge(1)
    assert outbox.offer(payload(SMALL.low))
