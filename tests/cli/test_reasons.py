"""`licorne explain` without an application: the reasons why all asks wait."""

from licorne.v1.state_pb2 import ListReasonsResponse, ReasonCause, ReasonQueue, WaitReason
from licorne_cli.nouns.reasons import in_one_line, never_of, row, together


def answer(asks: int, cause: str, partition: str) -> ListReasonsResponse:
    """An answer with asks of one queue that fit on no node, and one above a limit."""
    reasons = [
        WaitReason(
            code="NO_NODE_FITS",
            asks=asks,
            queues=1,
            resources={"vcore": asks},
            first_queues=[ReasonQueue(partition=partition, queue="root.a", asks=asks)],
            causes=[ReasonCause(cause=cause, asks=asks)],
            application_id="my app",
        ),
        WaitReason(code="USER_QUOTA_EXCEEDED", asks=1, queues=1),
    ]
    reasons[1].first_queues.add(queue="root.a", subject="bob in root", asks=1)
    return ListReasonsResponse(reasons=reasons, asks=asks + 1, time=asks)


def test_reasons_of_several_partitions_are_summed() -> None:
    """Counts and amounts are sums, the first queue has most asks, and names are quoted."""
    found = together([answer(3, "reserved", "[a]x"), answer(5_800, "full: memory", "[a]y")])
    assert (found.asks, found.time, [one.asks for one in found.reasons]) == (5_805, 3, [5_803, 2])
    first = found.reasons[0]
    assert (first.queues, dict(first.resources)) == (2, {"vcore": 5_803})
    assert [one.partition for one in first.first_queues] == ["[a]y", "[a]x"]
    assert row(first)[-2:] == ("5,800 full: memory, 3 reserved", "licorne explain 'my app'")
    assert in_one_line(found) == (
        "5,803 NO_NODE_FITS (5,800 full: memory, 3 reserved)"
        " · 2 USER_QUOTA_EXCEEDED in 2 queues (first: user bob in root at the limit)"
    )
    alone = in_one_line(answer(7, "full: memory", "[a]x"))
    assert alone.startswith("7 NO_NODE_FITS (full: memory) · 1 USER_QUOTA_EXCEEDED in 1 queue (")


def test_asks_that_can_never_start_are_counted_separately() -> None:
    """They are not among the asks that wait, and their first size has both amounts."""
    found, size = answer(7, "reserved", "[a]x"), "vcore=12 of at most vcore=10 on a node"
    assert (never_of(found).asks, in_one_line(found).count(" · ")) == (0, 1)
    found.reasons.add(code="NEVER_FITS", asks=3, causes=[ReasonCause(cause=size, asks=2)])
    assert (never_of(found).asks, row(never_of(found))[4], in_one_line(found).count(" · ")) == (3, size, 1)
