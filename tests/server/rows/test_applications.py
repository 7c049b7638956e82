"""The life of an application, seen from outside (spec § 5.1)."""

import pytest

from licorne.si.v1 import si_pb2 as si
from support.peers.served_rm import ServedRm
from support.peers.shim import application, ask

SECOND = 1_000_000_000


@pytest.fixture
async def ready(rm: ServedRm) -> ServedRm:
    """A node and an application."""
    await rm.register("", n0=1000)
    await rm.submit(application("app"))
    return rm


@pytest.mark.row(105)
async def test_every_state_is_told_with_its_time(ready: ServedRm) -> None:
    """From Accepted to Completed, each in nanoseconds; REST has the same log."""
    begin = int(ready.clock.now()) * SECOND
    await ready.wait(1)
    await ready.ask(ask("k"))
    await ready.wait(1)
    await ready.release("k")
    await ready.wait(60)
    states = [
        ("Accepted", begin + SECOND),
        ("Running", begin + SECOND),
        ("Completing", begin + 2 * SECOND),
        ("Completed", begin + 32 * SECOND),
    ]
    assert (await ready.heard()).updates == [("app", *state) for state in states]
    [shown] = await ready.get("applications/completed")
    assert [(item["applicationState"], item["time"]) for item in shown["stateLog"]] == [
        ("New", begin),
        *states,
    ]


@pytest.mark.row(106)
async def test_a_completing_application_wakes(ready: ServedRm) -> None:
    """An ask within thirty seconds makes it Running again, and it does not complete after them."""
    await ready.ask(ask("k"))
    await ready.release("k")
    await ready.wait(29)
    await ready.heard()
    await ready.ask(ask("again"))
    heard = await ready.heard()
    assert (heard.keys, heard.states) == (["again"], [("app", "Running")])
    await ready.wait(60)
    assert await ready.heard() == ([], [], [])


@pytest.mark.row(107)
async def test_a_removed_application_lets_all_go(ready: ServedRm) -> None:
    """All its allocations are told to be stopped, its asks are gone, and so is its usage."""
    await ready.ask(ask("k0", vcore=500), ask("k1", vcore=500), ask("waits"))
    await ready.heard()
    await ready.remove("app")
    heard = await ready.heard()
    assert heard.released == [
        (key, "STOPPED_BY_RM", "Application app Removed") for key in ("k0", "k1")
    ]
    assert heard.keys == []
    assert await ready.used() == (0, 0)


@pytest.mark.row(108)
async def test_an_id_is_free_after_completion(ready: ServedRm) -> None:
    """The same id is refused while the application is there, and taken when it has completed."""
    assert "already existed" in (await ready.submit(application("app")))["app"]
    await ready.ask(ask("k"))
    await ready.release("k")
    await ready.wait(30)
    assert await ready.submit(application("app")) == {}
    await ready.ask(ask("k"))
    assert (await ready.heard()).keys == ["k", "k"]


@pytest.mark.row(110)
@pytest.mark.parametrize(
    ("bad", "reason"),
    [
        (ask("bad", "nobody"), "failed to find application nobody"),
        (ask("bad", nodeID="n9"), "failed to find node n9"),
        (ask("bad", vcore=0), "allocation contains no resources"),
        (ask("bad", vcore=-1), "allocation contains negative resources"),
    ],
    ids=["application", "node", "zero", "negative"],
)
async def test_an_invalid_ask_is_refused(ready: ServedRm, bad: si.Allocation, reason: str) -> None:
    """Its reason is told, and the good one beside it runs."""
    assert await ready.ask(bad, ask("good")) == {"bad": reason}
    assert (await ready.heard()).keys == ["good"]
    assert await ready.used() == (100, 0)


@pytest.mark.row(111)
async def test_a_running_allocation_is_resized_in_all_books(ready: ServedRm) -> None:
    """Application, queue, node and user have the new size, and nothing is told for it."""
    await ready.ask(ask("k", vcore=300))
    await ready.heard()
    for vcore in (700, 1200, 100):
        await ready.ask(ask("k", vcore=vcore))
        assert await ready.heard() == ([], [], [])
        shown = [
            (await ready.app("app"))["usedResource"],
            (await ready.queue("root.ns"))["allocatedResource"],
            (await ready.get("node/n0"))["allocated"],
            (await ready.get("usage/user/tester"))["queues"]["resourceUsage"],
        ]
        assert shown == [{"vcore": vcore}] * 4
