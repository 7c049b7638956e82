"""Positions of asks in their queues over time, for asks that a user views."""

from collections import deque
from collections.abc import Iterator
from typing import NamedTuple

from licorne_core.values.errors import NotFound
from licorne_core.values.ids import AllocationKey, AppId, PartitionName
from licorne_core.views import Views
from licorne_server.reads.history.tracks import STEPS

MAX_ASKS = 64
"""Maximum number of followed asks."""

ASKS_OF_PEER = 16
"""Maximum number of asks that are followed for one peer."""

LOOK_SECONDS = 3_600.0
"""Seconds for which an ask is followed after it was viewed."""

ASKS_IN_STEP = 2_000
"""Waiting asks of an application that are counted in one step; larger applications get fewer samples."""


class AskName(NamedTuple):
    """An ask of an application in a partition."""

    partition: PartitionName
    app_id: AppId
    key: AllocationKey


class Place(NamedTuple):
    """The place of an ask in the queue at a time, in unix seconds: the asks ahead of it, and its blocker."""

    time: float
    asks: int
    applications: int
    code: str


class Followed:
    """The samples of one ask, the oldest first."""

    def __init__(self) -> None:
        """Start without samples."""
        self.looked_at = 0.0
        self.looked_by = ""
        """The peer that viewed it first."""
        self.due = 0
        """Number of the step that takes the next sample."""
        self.places: deque[Place] = deque(maxlen=STEPS)


class Places:
    """The positions of recently viewed asks."""

    def __init__(self, views: Views) -> None:
        """Start without asks to follow."""
        self._views = views
        self._followed: dict[AskName, Followed] = {}

    def look(self, name: AskName, now: float, peer: str) -> list[Place]:
        """Record that a peer views an ask, which is followed from now on; returns its samples."""
        followed = self._followed.pop(name, None) or Followed()
        followed.looked_at, followed.looked_by = now, followed.looked_by or peer
        # The most recently viewed ask is last in the dictionary, and is dropped last.
        self._followed[name] = followed
        of_peer = [one for one, found in self._followed.items() if found.looked_by == followed.looked_by]
        for one in of_peer[:-ASKS_OF_PEER]:
            del self._followed[one]
        while len(self._followed) > MAX_ASKS:
            del self._followed[next(iter(self._followed))]
        return list(followed.places)

    def record(self, step: int, now: float) -> Iterator[None]:
        """Take the samples of a step; the caller may pause at every step.

        An ask that has stopped waiting gets no more samples.
        """
        for name, followed in list(self._followed.items()):
            yield
            if followed.looked_at < now - LOOK_SECONDS:
                self._followed.pop(name, None)
            elif followed.due <= step:
                yield from self._sample(name, followed, step, now)

    def _sample(self, name: AskName, followed: Followed, step: int, now: float) -> Iterator[None]:
        try:
            waiting = self._views.application(name.partition, name.app_id).pending_count
            followed.due = step + 1 + waiting // ASKS_IN_STEP
            for ahead in self._views.ahead_of(*name):
                if ahead is not None:
                    followed.places.append(Place(now, *ahead))
                yield
        except NotFound:
            return
