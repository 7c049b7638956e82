"""The soak itself: a small one passes, and its checks detect their faults."""

from collections.abc import AsyncIterator, Callable

import pytest

from licorne_server.testing import serve
from soak.counts import APPLICATIONS, ASKS, RECONNECTS, ROUNDS, Reading, is_flat, soak
from soak.kills import CONFIG
from soak.ledger import SoakFailed
from soak.rm import SMALL, SoakRm, compare


@pytest.mark.slow
async def test_a_hundredth_of_the_soak_passes() -> None:
    """Both sides are equal after each part, and all work was done."""
    rounds = ROUNDS // 100
    told: list[Reading] = []
    readings = await soak(rounds, told.append)
    assert readings == told
    assert [reading.rounds for reading in readings] == list(range(1, rounds + 1))
    # One more allocation runs all the time, beside an ask without room.
    assert readings[-1].allocations == rounds * APPLICATIONS * ASKS + 1
    assert readings[-1].reconnects >= rounds * RECONNECTS


@pytest.mark.slow
def test_the_whole_soak_does_the_announced_work() -> None:
    """The soak makes 500,000 allocations, 5,000 applications and 1,000 reconnects in 500 rounds."""
    assert (ROUNDS * APPLICATIONS * ASKS, ROUNDS * APPLICATIONS) == (500_000, 5_000)
    assert ROUNDS * RECONNECTS == 1_000


@pytest.mark.parametrize(
    ("rss", "flat"),
    [
        pytest.param([50, 90, 100, 100, 100, 100, 100, 100, 100, 100], True, id="warms up"),
        pytest.param([90, 90, 100, 140, 140, 140, 130, 120, 110, 110], True, id="comes back"),
        pytest.param([80, 90, 100, 110, 120, 130, 140, 150, 160, 170], False, id="grows"),
        pytest.param([80, 90, 100, 100, 100, 100, 100, 100, 100, 116], False, id="too much"),
    ],
)
def test_growing_memory_is_detected(rss: list[int], *, flat: bool) -> None:
    """The last reading is compared with the third, by which bounded data is full."""
    assert is_flat(rss) is flat


@pytest.fixture
async def settled() -> AsyncIterator[tuple[SoakRm, str]]:
    """An RM with an object of every kind, and the address of its server."""
    async with serve() as served, SoakRm(served.target, "rm1", CONFIG) as rm:
        await rm.add_nodes(["n1", "n2"], 1000)
        await rm.submit(["app"])
        await rm.submit(["waits"], SMALL)
        await rm.ask("app", ["a", "b"])
        await rm.ask("waits", ["c", "d"])
        await rm.until(lambda: len(rm.running) == 3, "allocations")
        yield rm, served.target


async def test_equal_sides_have_no_difference(settled: tuple[SoakRm, str]) -> None:
    """The ledger of an RM without errors equals the server's state."""
    await compare(*settled)


def forget_an_allocation(rm: SoakRm) -> None:
    """Remove a running allocation from the ledger."""
    del rm.running["a"]


def move_an_allocation(rm: SoakRm) -> None:
    """Move an allocation to another node in the ledger."""
    rm.running["a"] = "n3"


def forget_an_ask(rm: SoakRm) -> None:
    """Remove a pending ask from the ledger."""
    rm.waiting.clear()


def forget_an_application(rm: SoakRm) -> None:
    """Remove an application from the ledger."""
    del rm.applications["app"]


def invent_a_node(rm: SoakRm) -> None:
    """Add a node to the ledger."""
    rm.nodes["n9"] = 1


@pytest.mark.parametrize(
    ("slip", "text"),
    [
        (forget_an_allocation, "allocations of rm1: only the RM has .*, only the server has"),
        (move_an_allocation, "allocations of rm1: only the RM has ..'a', 'n3'"),
        (forget_an_ask, "asks that wait of rm1"),
        (forget_an_application, "applications of rm1: .*'app', 'root.work'"),
        (invent_a_node, "usage of nodes of rm1: only the RM has .*n9"),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
async def test_differences_are_detected(
    settled: tuple[SoakRm, str], slip: Callable[[SoakRm], None], text: str
) -> None:
    """The error names the items that only one side has."""
    slip(settled[0])
    with pytest.raises(SoakFailed, match=text):
        await compare(*settled)


async def test_a_refused_ask_is_detected(settled: tuple[SoakRm, str]) -> None:
    """An RM whose ask is refused does not wait for it."""
    rm, _ = settled
    await rm.ask("nobody", ["e"])
    with pytest.raises(SoakFailed, match="refused: AskRejected"):
        await rm.all_run()
