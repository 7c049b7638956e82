"""Replays a run with changes, in step with a replay of the live run.

As long as both are equal, the second run gets all recorded inputs, including turns, so that a change without
effect causes no difference. From the first different effect on, or the first turn that only one run needs,
the RMs of the second run are simulated (`carrying.py`).
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from licorne_core.messages.commands import Command, RegisterRm
from licorne_core.messages.effects import (
    ConfigurationRefused,
    ConfigurationUpdated,
    Effect,
    RegistrationFailed,
    Unfinished,
)
from licorne_core.scheduler import Scheduler
from licorne_server.engine.journal.digest import DigestOf
from licorne_server.engine.journal.records import Input, Record
from licorne_server.lab.simulation.acting import Carried
from licorne_server.lab.simulation.carrying import Carrying
from licorne_server.lab.simulation.changes import Changes
from licorne_server.lab.simulation.differing import Difference, Differing
from licorne_server.lab.simulation.lives import Lives
from licorne_server.lab.simulation.player import Player, Watcher
from licorne_server.lab.simulation.replaying import EACH, Progress, header_of, scheduler_of

_OF_CONFIGURATION: Final = (ConfigurationUpdated, ConfigurationRefused)


class ChangeRefused(Exception):
    """An RM refuses the configuration; the text gives the reason."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Compared:
    """The run with changes. `difference` is None if no decision differs."""

    player: Player
    carried: Carried
    difference: Difference | None


class _Follower:
    """Passes the decisions of the run with changes to `Differing`."""

    def __init__(self, differing: Differing, changes: Changes) -> None:
        self._differing = differing
        self._changes = changes

    def passes(self, now: float) -> None:
        """Do nothing: time by itself makes no difference."""

    def saw(self, now: float, command: Command, effects: Sequence[Effect]) -> None:
        self._differing.saw(now, effects, is_live=False)
        if isinstance(command, RegisterRm) and self._changes.config and self._changes.concern(command.rm_id):
            for effect in effects:
                if isinstance(effect, RegistrationFailed):
                    raise ChangeRefused(f"RM {command.rm_id}: {effect.reason}")


class Comparison:
    """Plays both runs side by side."""

    def __init__(
        self,
        records: Iterator[Record],
        lives: Lives,
        changes: Changes,
        watched_by: Callable[[Scheduler], Sequence[Watcher]],
    ) -> None:
        """Replay a run; `watched_by` makes the watchers of the core with changes.

        Raises:
            NoRun: the run has no beginning.
        """
        header = header_of(records)
        self._records = records
        self._changes = changes
        self._live = Player(scheduler_of(header.options), now=header.start)
        self._differing = Differing(lives)
        scheduler = scheduler_of(changes.options(header.options))
        watchers = (*watched_by(scheduler), _Follower(self._differing, changes))
        self._player = Player(scheduler, *watchers, now=header.start)
        self._carrying = Carrying(self._player, lives)
        self._is_same = True

    def play(self, until: float, progress: Progress) -> Compared:
        """Play up to a time, `until` included.

        Raises:
            ChangeRefused: an RM refuses the configuration.
        """
        inputs = 0
        now = self._player.now
        for record in self._records:
            if not isinstance(record, Input):
                continue
            if record.now > until:
                now = until
                break
            now = record.now
            self._play(record)
            inputs += 1
            if not inputs % EACH:
                progress(now)
        if not self._is_same:
            self._carrying.advance(now)
        self._differing.end()
        return Compared(player=self._player, carried=self._carrying.carried, difference=self._differing.found)

    def _play(self, record: Input) -> None:
        now, command = record.now, record.command
        if self._is_same and _is_due(self._player, now) and not _is_due(self._live, now):
            self._part()
        if not self._is_same:
            self._carrying.advance(now)
        live: list[Effect] = []
        if self._is_same or self._differing.found is None:
            live = self._live.handle(now, command)
            self._differing.saw(now, live, is_live=True)
        mine = self._changes.of(command)
        if self._is_same:
            effects = [] if mine is None else self._player.handle(now, mine)
            self._carrying.note(command if mine is None else mine, effects)
            if not _equal(live, effects):
                self._part()
        elif mine is not None:
            self._carrying.give(mine)
        added = self._changes.after(command)
        if added is not None:
            self._carrying.feed(added)
        self._differing.passes(now)

    def _part(self) -> None:
        self._is_same = False
        self._carrying.begin()


def _is_due(player: Player, now: float) -> bool:
    deadline = player.scheduler.next_deadline()
    return deadline is not None and deadline <= now


def _equal(live: Sequence[Effect], mine: Sequence[Effect]) -> bool:
    """True if both have made the same decisions, and either both are unfinished or neither is."""
    if not live and not mine:
        return True
    return _sum(live) == _sum(mine)


def _sum(effects: Sequence[Effect]) -> tuple[bool, bytes]:
    digest = DigestOf()
    digest.saw([effect for effect in effects if not isinstance(effect, _OF_CONFIGURATION)])
    return bool(effects) and isinstance(effects[-1], Unfinished), digest.value()
