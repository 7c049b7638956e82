"""The connections of one process to the store and to the RMs, with their faults."""

from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from typing import TypeVarTuple

from licorne_server.store.coordination.store import Snapshot
from licorne_server.store.documents.documents import StoreError
from support.coordination.loops import MemberLoop, Time
from support.coordination.store import StoreModel

_Ts = TypeVarTuple("_Ts")
_Answer = Callable[[object, StoreError | None], None]


@dataclass(slots=True)
class Weather:
    """The faults of messages in a world, as probabilities."""

    lost: float
    """Probability that a message to or from the store is lost."""
    late: float
    """Probability that a message takes seconds."""
    slow: float
    """Probability that an answer arrives just before the member's time-out."""
    forgotten: float
    """Probability that an event of a watch is lost."""
    old: float
    """Probability that a read returns an older state."""

    def clear_up(self) -> None:
        """End the faults. Watches still lose events, which happens in normal operation, too."""
        self.lost = self.late = self.slow = self.old = 0.0


class Network:
    """The connections of one process."""

    def __init__(
        self, time: Time, randomness: Random, weather: Weather, store: StoreModel, loop: MemberLoop
    ) -> None:
        """Start with all connections open."""
        self._time = time
        self._randomness = randomness
        self._weather = weather
        self._store = store
        self._loop = loop
        self.is_cut_from_store = False
        self.is_cut_from_rms = False

    def ask(
        self, operation: Callable[[], object], answer: Callable[[object, StoreError | None], None]
    ) -> None:
        """Carry out an operation at the store, and deliver its answer; either message may be lost or late."""
        if not self._is_lost():
            self._time.after(self._delay(), self._arrive, operation, answer)

    def read(self) -> Snapshot:
        """The state that a read returns, which may be an older one."""
        is_old = self._randomness.random() < self._weather.old
        return self._store.older() if is_old else self._store.snapshot

    def tell(self, take: Callable[[Snapshot], None], snapshot: Snapshot) -> None:
        """Deliver a snapshot, with the delay of an answer."""
        if not self._store.is_down and not self._is_lost():
            self._time.after(self._delay(), self._bring, take, snapshot)

    def loses_event(self) -> bool:
        """True if an event of a watch is lost."""
        return self._randomness.random() < self._weather.forgotten

    def to_rm(self, call: Callable[[*_Ts], object], *arguments: *_Ts) -> None:
        """Send a message to or from an RM. It is lost if the connection is cut when it arrives."""
        self._time.after(self._delay(), self._if_open, call, *arguments)

    def _if_open(self, call: Callable[[*_Ts], object], *arguments: *_Ts) -> None:
        if not self.is_cut_from_rms:
            call(*arguments)

    def _arrive(self, operation: Callable[[], object], answer: _Answer) -> None:
        if self.is_cut_from_store or self._store.is_down:
            return
        result: object = None
        error: StoreError | None = None
        try:
            result = operation()
        except StoreError as failure:
            error = failure
        if not self._is_lost():
            is_slow = self._randomness.random() < self._weather.slow
            delay = self._randomness.uniform(0.9, 1.4) if is_slow else self._delay()
            self._time.after(delay, self._bring, answer, result, error)

    def _bring(self, take: Callable[[*_Ts], object], *arguments: *_Ts) -> None:
        if not self.is_cut_from_store:
            self._loop.post(take, *arguments)

    def _is_lost(self) -> bool:
        return self.is_cut_from_store or self._randomness.random() < self._weather.lost

    def _delay(self) -> float:
        if self._randomness.random() < self._weather.late:
            return self._randomness.choice(
                (self._randomness.uniform(0.5, 1.5), self._randomness.uniform(1.0, 9.0))
            )
        return self._randomness.uniform(0.001, 0.05)
