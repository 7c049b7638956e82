"""Noticed victims, whose stop is delayed (`RequestState.NOTICED`)."""

from collections.abc import Mapping

from licorne_core.messages.preemption import PreemptionRecord
from licorne_core.model.apps.requests import Request
from licorne_core.values.timers import Timer, Timers


class Stay:
    """A noticed victim: an extension has delayed its stop until a deadline.

    Times are in unix seconds.
    """

    __slots__ = ("_timer", "_timers", "record", "stops_at", "words")

    def __init__(
        self, record: PreemptionRecord, stops_at: float, words: str, timers: Timers[Timer], timer: Timer
    ) -> None:
        """Set the deadline; `words` describe the delay in explanations."""
        self.record = record
        """The record for the ledger, added when the victim is stopped."""
        self.stops_at = stops_at
        """Time at which the victim is stopped, unless it is spared."""
        self.words = words
        self._timers, self._timer = timers, timer
        timers.set(timer, stops_at)

    def stop_at(self, time: float) -> None:
        """Change the time of the stop."""
        self.stops_at = time
        self._timers.set(self._timer, time)

    def reconsider(self, now: float) -> None:
        """Decide immediately whether the victim is spared, as the reason for its choice may have changed."""
        self._timers.set(self._timer, now)

    def is_due(self, now: float) -> bool:
        """True if the deadline has been reached."""
        deadline = self._timers.deadline(self._timer)
        return deadline is not None and deadline <= now

    def end(self, stays: "Mapping[Request, Stay]", *, stopped: bool) -> None:
        """Cancel the deadline of a `stopped`, spared or ended victim; `stays` has the other victims."""
        self._timers.cancel(self._timer)


Stays = dict[Request, Stay]
"""The noticed victims of a partition; its ledger has no records of them yet."""


def end_stay(stays: Stays, request: Request, *, stopped: bool = False) -> Stay:
    """End the delay of a victim, which is `stopped`, is spared, or has ended."""
    stay = stays.pop(request)
    stay.end(stays, stopped=stopped)
    return stay


def ask_again(stays: Stays, now: float) -> None:
    """Decide immediately which victims are spared, as the reason for their choice may have changed."""
    for stay in stays.values():
        stay.reconsider(now)
