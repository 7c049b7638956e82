"""A core in virtual time: handles commands and runs turns like the engine, without waiting."""

from collections.abc import Iterator, Sequence
from typing import Final, Protocol

from licorne_core.messages.commands import Command, Hold, OfNoRm, SetHold, Tick
from licorne_core.messages.effects import Effect, TickFailed, Unfinished
from licorne_core.scheduler import Scheduler
from licorne_core.values.errors import ConfigError, NotFound
from licorne_core.values.ids import RmId

DECISIONS: Final = 256
"""Maximum number of decisions of one turn. The engine adapts its maximum to the duration of turns."""


class Watcher(Protocol):
    """Follows a player. Times are in unix seconds and never fall."""

    def passes(self, now: float) -> None:
        """Advance to `now`: the core has not changed since the last command."""
        ...

    def saw(self, now: float, command: Command, effects: Sequence[Effect]) -> None:
        """Record that the core has handled a command or a turn."""
        ...


class Player:
    """A scheduler with its virtual time."""

    now: float
    """Time of the last command or turn, in unix seconds."""
    handled: int
    """Commands and turns so far."""
    defects: int
    """Commands and turns in which the core failed."""

    def __init__(self, scheduler: Scheduler, *watchers: Watcher, now: float = 0.0) -> None:
        """Own the scheduler from now on; the watchers are called for all that it handles, in this order."""
        self.scheduler = scheduler
        self.now = now
        self.handled = 0
        self.defects = 0
        self._watchers = watchers
        self._failed: RmId | None = None

    def handle(self, now: float, command: Command) -> list[Effect]:
        """Handle one command or tick; the remainder of a large command is the last effect (`Unfinished`).

        A refused command of budgets has no effects; a command in which the core fails has the effects up to
        the failure.
        """
        self.now = now
        self.handled += 1
        for watcher in self._watchers:
            watcher.passes(now)
        try:
            effects = self.scheduler.handle(command, now)
        except TickFailed as failure:
            self.defects += 1
            self._failed, effects = failure.rm_id, failure.effects
        except (ConfigError, NotFound):
            effects = []
        except Exception:
            self.defects += 1
            self._failed, effects = None if isinstance(command, OfNoRm) else command.rm_id, []
        for watcher in self._watchers:
            watcher.saw(now, command, effects)
        return effects

    def feed(self, now: float, command: Command) -> list[Effect]:
        """Handle a command completely; returns all effects."""
        effects: list[Effect] = []
        rest: Command | None = command
        while rest is not None:
            told = self.handle(now, rest)
            last = told.pop() if told and isinstance(told[-1], Unfinished) else None
            rest = last.rest if isinstance(last, Unfinished) else None
            effects += told
        self._hold_failed()
        return effects

    def advance(self, until: float) -> Iterator[list[Effect]]:
        """Run every turn and deadline that is due by `until`; yields the effects of each, at `now`.

        Commands may be handled between two turns. At the end nothing is due, and `now` is `until`.
        """
        while True:
            deadline = self.scheduler.next_deadline()
            if deadline is None or deadline > until:
                break
            effects = self.handle(max(self.now, deadline), Tick(decisions=DECISIONS))
            self._hold_failed()
            yield effects
        self.now = max(self.now, until)

    def _hold_failed(self) -> None:
        """Hold an RM in whose partition the core has failed, like the engine."""
        rm_id, self._failed = self._failed, None
        if rm_id is not None:
            self.handle(self.now, SetHold(rm_id=rm_id, hold=Hold.DEFECT, on=True))
