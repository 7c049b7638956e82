"""Reachability of other members: an RM is not redirected to an owner that does not answer."""

import asyncio
from collections.abc import Callable
from contextlib import suppress

PROBE_SECONDS = 0.5
"""Seconds within which a member has to accept a connection."""

FRESH_SECONDS = 1.0
"""Seconds for which an answer is cached."""

MOST = 1_000
"""Maximum number of members whose answers are cached."""


class Reach:
    """Checks members by test connections.

    An owner that has died keeps its lease for a while. RMs that are redirected to it return late, and RMs
    that are asked to wait return soon. A member that this one cannot reach for longer than a lease, but that
    still has its lease, is alive: RMs may reach it.
    """

    def __init__(self, lease: float, now: Callable[[], float]) -> None:
        """`lease` is in seconds; `now` returns seconds of a monotonic clock."""
        self._lease = lease
        self._now = now
        self._probes: dict[str, asyncio.Task[bool]] = {}
        # By address: the time of the last answer; the time since which the member has not answered.
        self._answered: dict[str, float] = {}
        self._silent: dict[str, float] = {}

    async def may_answer(self, address: str) -> bool:
        """True unless a member at ``HOST:PORT`` has probably died."""
        now = self._now()
        if now - self._answered.get(address, -FRESH_SECONDS) < FRESH_SECONDS:
            return True
        probe = self._probes.get(address)
        if probe is None:
            probe = asyncio.get_running_loop().create_task(_accepts(address), name="probe")
            self._probes[address] = probe
            probe.add_done_callback(lambda _: self._probes.pop(address, None))
        if await asyncio.shield(probe):
            self._silent.pop(address, None)
            _note(self._answered, address, self._now())
            return True
        since = self._silent.setdefault(address, now)
        _note(self._silent, address, since)
        return self._now() - since > self._lease


def _note(moments: dict[str, float], address: str, moment: float) -> None:
    """Store a time, and drop the oldest times beyond `MOST`."""
    moments.pop(address, None)
    moments[address] = moment
    if len(moments) > MOST:
        del moments[next(iter(moments))]


async def _accepts(address: str) -> bool:
    host, _, port = address.rpartition(":")
    try:
        async with asyncio.timeout(PROBE_SECONDS):
            _, writer = await asyncio.open_connection(host.strip("[]"), int(port))
    except (OSError, TimeoutError):
        return False
    writer.close()
    with suppress(OSError):
        await writer.wait_closed()
    return True
