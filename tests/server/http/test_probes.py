"""Liveness and readiness."""

import asyncio

from licorne_server.http.health import Heartbeat
from support.server.http_site import Site


async def verdicts(site: Site) -> tuple[int, int]:
    """Statuses of the two probes."""
    return (await site.ask("/livez"))[0], (await site.ask("/readyz"))[0]


async def test_life_of_a_server(site: Site) -> None:
    """Alive from the start, ready once started, not while draining, dead when the engine is."""
    site.status.started = False
    assert await verdicts(site) == (200, 503)
    site.status.started = True
    assert await verdicts(site) == (200, 200)
    site.status.draining = True
    assert await verdicts(site) == (200, 503)
    site.status.draining = False
    site.status.failure = "engine stopped"
    assert await verdicts(site) == (503, 503)


async def test_probes_say_why(site: Site) -> None:
    """A probe that fails has the reason as its text."""
    assert (await site.ask("/readyz"))[2] == b"ok\n"
    site.status.draining = True
    assert (await site.ask("/readyz"))[2] == b"draining\n"
    site.status.failure = "engine stopped: no memory"
    assert (await site.ask("/livez"))[2] == b"engine stopped: no memory\n"


async def test_a_standstill_is_over_when_the_server_goes_on(site: Site) -> None:
    """Both probes fail with the reason, and no longer than it lasts."""
    site.status.stall = "the engine has not turned for 30 s"
    assert await verdicts(site) == (503, 503)
    assert (await site.ask("/livez"))[2] == b"the engine has not turned for 30 s\n"
    site.status.stall = ""
    assert await verdicts(site) == (200, 200)


async def test_lag_is_the_worst_since_last_asked() -> None:
    """The loop's lag is that of its latest beat, told once."""
    time = 0.0
    heartbeat = Heartbeat(clock=lambda: time)
    heartbeat.start()
    time = 0.75
    heartbeat.beat()
    assert heartbeat.worst_lag() == 0.5
    assert heartbeat.worst_lag() == 0.0
    heartbeat.stop()


async def test_heartbeat_beats_by_itself() -> None:
    """Started, it beats in the loop without anybody's help."""
    beaten = asyncio.Event()

    class Watched(Heartbeat):
        def beat(self) -> None:
            super().beat()
            beaten.set()

    heartbeat = Watched()
    heartbeat.start()
    await asyncio.wait_for(beaten.wait(), 10)
    heartbeat.stop()
