"""Allocations that were to be stopped, and run on for a while (`RequestState.NOTICED`)."""

from collections.abc import Mapping

from licorne_core.messages.preemption import PreemptionRecord
from licorne_core.model.apps.requests import Request
from licorne_core.values.timers import Timer, Timers


class Stay:
    """A victim that runs on for a while, as an extension has put its stop off, until its deadline fires.

    Times are in unix seconds.
    """

    __slots__ = ("_timer", "_timers", "record", "stops_at", "words")

    def __init__(
        self, record: PreemptionRecord, stops_at: float, words: str, timers: Timers[Timer], timer: Timer
    ) -> None:
        """Set its deadline; `words` tell of it in explanations."""
        self.record = record
        """The record for the ledger, once the victim is stopped."""
        self.stops_at = stops_at
        """Time at which the victim is stopped, if it is still to be."""
        self.words = words
        self._timers, self._timer = timers, timer
        timers.set(timer, stops_at)

    def stop_at(self, time: float) -> None:
        """It is stopped at another time."""
        self.stops_at = time
        self._timers.set(self._timer, time)

    def reconsider(self, now: float) -> None:
        """Have it decided at once if the victim goes on: what chose it may have changed."""
        self._timers.set(self._timer, now)

    def is_due(self, now: float) -> bool:
        """True if that is decided now in any case."""
        deadline = self._timers.deadline(self._timer)
        return deadline is not None and deadline <= now

    def end(self, stays: "Mapping[Request, Stay]", *, stopped: bool) -> None:
        """The victim is `stopped`, goes on for good, or has ended; `stays` are the others."""
        self._timers.cancel(self._timer)


Stays = dict[Request, Stay]
"""Those of a partition, of which there are no records yet."""


def end_stay(stays: Stays, request: Request, *, stopped: bool = False) -> Stay:
    """A victim that ran on for a while is `stopped`, goes on for good, or has ended."""
    stay = stays.pop(request)
    stay.end(stays, stopped=stopped)
    return stay


def ask_again(stays: Stays, now: float) -> None:
    """Have it decided at once which victims go on: what chose them may have changed."""
    for stay in stays.values():
        stay.reconsider(now)
