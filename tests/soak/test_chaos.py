"""Faults of a server and of connections: RMs are served afterwards, and both sides are equal."""

import pytest

from soak.chaos import CONFIG, shake
from soak.ledger import VCORE, Ledger, SoakFailed
from soak.plain_rm import PlainRm
from soak.rm import compare
from support.server.server_process import ForkedServer


@pytest.mark.slow
async def test_a_single_server_survives_faults() -> None:
    """RMs with clients, and one with plain stubs, are served after kills, stops, and broken connections."""
    told: list[int] = []
    await shake(1, 3, told.append)
    assert told == [1, 2, 3]


@pytest.mark.parametrize(
    ("problem", "placed"),
    [
        ("was placed on", [("k-1", "n1"), ("k-1", "n2")]),
        ("is not there", [("k-1", "n3")]),
        ("bears 300", [("k-1", "n1"), ("k-2", "n1"), ("k-3", "n1")]),
    ],
)
async def test_a_ledger_detects_wrong_allocations(problem: str, placed: list[tuple[str, str]]) -> None:
    """An allocation that runs twice, on no node, or on a full one ends the test."""
    ledger = Ledger("rm")
    ledger.add(["n1", "n2"], 2 * VCORE)
    ledger.want(key for key, _ in placed)
    for key, node_id in placed:
        ledger.allocated(key, node_id)
    with pytest.raises(SoakFailed, match=problem):
        await ledger.until(lambda: False, "nothing")


async def test_a_release_frees_room_in_the_ledger() -> None:
    """Only the present allocations of a node count against its size."""
    ledger = Ledger("rm")
    ledger.add(["n1"], VCORE)
    for number in range(3):
        ledger.want([f"k-{number}"])
        ledger.allocated(f"k-{number}", "n1")
        ledger.released(f"k-{number}")
    await ledger.until(lambda: ledger.placed == ledger.ended == 3, "nothing")


async def test_an_rm_with_plain_stubs_registers_again() -> None:
    """After a kill of the server the RM replays its allocations, and both sides are equal again."""
    async with ForkedServer() as server, PlainRm(server.target, "rm1", CONFIG) as rm:
        await rm.add_nodes(["n1"], 10 * VCORE)
        await rm.submit(["a"])
        await rm.ask("a", ["a-1", "a-2"])
        await rm.until(lambda: len(rm.running) == 2, "allocations")
        await compare(rm, server.target)
        await server.restart()
        await rm.ask("a", ["a-3"])
        await rm.until(lambda: len(rm.running) == 3, "another")
        await rm.release(["a-1"])
        await rm.until(lambda: not rm.ending, "a release")
        await compare(rm, server.target)
        assert rm.registrations == 2
