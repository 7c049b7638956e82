"""Why everything waits: `licorne explain` without an application."""

from licorne.v1.state_pb2 import ListReasonsResponse, ReasonCause, ReasonQueue, WaitReason
from licorne_cli.nouns.reasons import in_one_line, row, together
from support.peers.town import Town


async def test_the_reasons_of_all_asks_are_shown(town: Town) -> None:
    """Of all RMs, or of one, or of a queue; each with the command that shows more. Nothing is no error."""
    result = await town.shell("explain")
    assert (result.code, result.err) == (0, "")
    assert result.out.startswith("2 asks wait:\n")
    assert "root.prod at its maximum" in result.out
    command = result.out.splitlines()[-1].partition("licorne ")[2].split()
    assert (await town.shell(command[0], *command[1:])).out.startswith("/".join(command[1:]))
    assert (await town.shell("explain", "--rm", "blue", "-o", "json")).json["asks"] == 2
    for options in (("--rm", "green"), ("--queue", "root.dev"), ("--partition", "[green]default")):
        result = await town.shell("explain", *options)
        assert (result.code, result.out) == (0, "nothing waits\n")
    result = await town.shell("explain", "--rm", "nobody")
    assert (result.code, result.out) == (3, "")
    result = await town.shell("explain", "shop", "--queue", "root.prod")
    assert (result.code, result.err) == (1, "licorne: --queue is for all asks: leave out the application\n")


def answer(asks: int, cause: str, partition: str) -> ListReasonsResponse:
    """Asks of one queue that fit on no node, and one above a limit."""
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


def test_the_partitions_of_an_rm_are_added_up() -> None:
    """Counts and amounts are sums, the first queue is that with most asks, and names are quoted."""
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
