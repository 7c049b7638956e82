"""What an RM confirms and gives back, seen from outside (spec §§ 1.4, 1.6.10-11)."""

import pytest

from licorne.si.v1 import si_pb2 as si
from support.peers.served_rm import ServedRm
from support.peers.shim import application, ask, node

CONFIRMATIONS = [si.TIMEOUT, si.PREEMPTED_BY_SCHEDULER]


@pytest.fixture
async def full(rm: ServedRm) -> ServedRm:
    """Two allocations, k0 and k1, on a full node, and k2 waiting."""
    await rm.register("", n0=200)
    await rm.submit(application("app"))
    await rm.ask(ask("k0"), ask("k1"), ask("k2"))
    assert (await rm.heard()).keys == ["k0", "k1"]
    return rm


async def books(rm: ServedRm) -> list[int]:
    """Milli-cores in use as the node, the user, the queue and the application have them."""
    user = await rm.get("usage/user/tester")
    shown = [
        (await rm.get("node/n0"))["allocated"],
        user["queues"]["resourceUsage"],
        (await rm.queue("root.ns"))["allocatedResource"],
        (await rm.app("app"))["usedResource"],
    ]
    return [amounts.get("vcore", 0) for amounts in shown]


@pytest.mark.row(12)
@pytest.mark.parametrize("why", CONFIRMATIONS, ids=si.TerminationType.Name)
async def test_a_confirmation_frees_and_is_not_acknowledged(
    full: ServedRm, why: si.TerminationType.ValueType
) -> None:
    """Nothing is freed before it; with it the room is, in all books, and nothing is told back."""
    await full.wait(3600)
    assert await books(full) == [200] * 4
    await full.release("k2")
    await full.release("k0", why=why)
    assert await full.heard() == ([], [], [])
    assert await books(full) == [100] * 4


@pytest.mark.row(12)
@pytest.mark.parametrize("why", CONFIRMATIONS, ids=si.TerminationType.Name)
async def test_what_was_confirmed_is_free_for_others_once(
    full: ServedRm, why: si.TerminationType.ValueType
) -> None:
    """Who waits gets the room; a second and a third confirmation free nothing more."""
    await full.release("k0", why=why)
    assert await full.heard() == ([("k2", "n0")], [], [])
    await full.ask(ask("k3"))
    for again in (why, *CONFIRMATIONS):
        await full.release("k0", why=again)
    assert await full.heard() == ([], [], [])
    assert await books(full) == [200] * 4
    assert await full.used() == (200, 100)


@pytest.mark.row(12)
@pytest.mark.parametrize("why", CONFIRMATIONS, ids=si.TerminationType.Name)
async def test_a_confirmation_of_what_ended_otherwise_is_too_late(
    full: ServedRm, why: si.TerminationType.ValueType
) -> None:
    """After its node has gone with it, or the RM has stopped it, it is not freed again."""
    await full.release("k0")
    assert [item[:2] for item in (await full.heard()).released] == [("k0", "STOPPED_BY_RM")]
    await full.release("k0", why=why)
    assert await books(full) == [200] * 4
    await full.tell_nodes(si.NodeInfo(nodeID="n0", action=si.NodeInfo.DECOMISSION))
    assert [item[0] for item in (await full.heard()).released] == ["k1", "k2"]
    await full.tell_nodes(node("n0", vcore=1000))
    await full.ask(ask("k4"))
    await full.release("k1", "k2", why=why)
    heard = await full.heard()
    assert (heard.new, heard.released) == ([("k4", "n0")], [])
    assert await books(full) == [100] * 4


@pytest.mark.row(12)
async def test_a_timeout_without_key_leaves_asks_alone(full: ServedRm) -> None:
    """It frees every allocation of the application silently; what waits goes on to wait."""
    await full.release("", why=si.TIMEOUT)
    assert await full.heard() == ([("k2", "n0")], [], [])
    assert await books(full) == [100] * 4


@pytest.mark.row(17)
async def test_what_the_rm_could_not_run_is_scheduled_again(full: ServedRm) -> None:
    """It waits again without a word, the last of its age, and runs where there is room."""
    await full.release("k0", why=si.SCHEDULING_FAILED_ON_RM)
    assert await full.heard() == ([("k2", "n0")], [], [])
    assert await full.used() == (200, 100)
    assert [item["allocationKey"] for item in (await full.app("app"))["requests"]] == ["k0"]
    await full.tell_nodes(node("n1", vcore=100))
    await full.wait(1)
    assert await full.heard() == ([("k0", "n1")], [], [])
    assert await full.used() == (300, 0)


@pytest.mark.row(17)
async def test_a_rollback_keeps_age_and_priority(full: ServedRm) -> None:
    """What comes back goes before younger asks, and behind those of a higher priority."""
    await full.release("k2")
    await full.wait(1)
    await full.ask(ask("young"), ask("mild", priority=3), ask("urgent", priority=5))
    await full.release("k0", why=si.SCHEDULING_FAILED_ON_RM)
    assert (await full.heard()).keys == ["urgent"]
    await full.release("urgent", why=si.SCHEDULING_FAILED_ON_RM)
    assert (await full.heard()).keys == ["mild"]
    await full.wait(1)
    await full.release("mild", "k1")
    assert (await full.heard()).keys == ["urgent", "k0"]


@pytest.mark.row(17)
async def test_a_rollback_of_what_does_not_run_is_ignored(full: ServedRm) -> None:
    """An ask that waits and a key that nobody knows stay as they are."""
    await full.release("k2", "nobody", why=si.SCHEDULING_FAILED_ON_RM)
    assert await full.heard() == ([], [], [])
    assert await full.used() == (200, 100)
