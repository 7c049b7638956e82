"""Detects the ends of leases by this observer's own monotonic clock.

Wall clocks of different machines are never compared. A Lease counts as ended if its resourceVersion has
not changed for its duration since this observer first saw that version. The observer sees a renewal
later than it was sent, so it never counts a lease as ended before the member has stopped; and an observer
that has just begun waits for a whole lease.

The same applies to an absent Lease, which may have been deleted while its member continues until its next
renewal fails.

Only time in which the observer could read counts. After a long outage of the API server, or a pause of this
process, every member gets a whole lease to renew, so the first observer does not consider the others gone.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from licorne_server.store.coordination.store import MemberId

ABSENT = ""
"""Version of an absent Lease."""


@dataclass(slots=True)
class _Sighting:
    version: str
    duration: float
    since: float
    last: float


class Sightings:
    """The observed versions of members' leases, with times of this observer's clock."""

    def __init__(self, lease: float, reread: float) -> None:
        """`lease` is the duration of an absent Lease; all objects are read again every `reread` seconds."""
        self._lease = lease
        self._reread = reread
        self._seen: dict[MemberId, _Sighting] = {}

    def see(self, member: MemberId, version: str, duration: float, now: float) -> None:
        """Record that a read found the Lease of a member."""
        seen = self._seen.get(member)
        if seen is None or seen.version != version or now - seen.last > self._gap(seen):
            self._seen[member] = _Sighting(version, duration, now, now)
        else:
            seen.last = now

    def miss(self, member: MemberId, now: float) -> None:
        """Record that a read found no Lease of the member."""
        seen = self._seen.get(member)
        self.see(member, ABSENT, self._lease if seen is None else max(self._lease, seen.duration), now)

    def is_over(self, member: MemberId, now: float) -> bool:
        """True if the Lease, as it was last seen, has not changed for its duration."""
        seen = self._seen.get(member)
        return seen is not None and now - seen.last <= self._gap(seen) and now - seen.since >= seen.duration

    def next_end(self, now: float) -> float:
        """Seconds until the next Lease ends if nothing changes; infinite if there are none."""
        ends = (seen.since + seen.duration - now for seen in self._seen.values())
        return min((end for end in ends if end > 0), default=float("inf"))

    def keep(self, members: Iterable[MemberId]) -> None:
        """Drop the sightings of all other members."""
        kept = set(members)
        self._seen = {member: seen for member, seen in self._seen.items() if member in kept}

    def _gap(self, seen: _Sighting) -> float:
        """Seconds between two reads above which a pause does not count for the lease."""
        return max(seen.duration / 2, 2 * self._reread)
