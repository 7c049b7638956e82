"""How the RMs of a world answer what they are told to stop: at once, later, wrongly or never.

What an RM does follows from the release alone, and from how often it was told, so that a script
that was cut short is confirmed as before.
"""

from collections.abc import Iterable
from zlib import crc32

from licorne_core.messages.commands import Command, ReleaseRequest, TerminationType
from licorne_core.messages.effects import AllocationsReleased, Effect, Release
from licorne_core.values.ids import RmId
from support.core.builders import release, releases

_T = TerminationType

ASKED = (_T.TIMEOUT, _T.PREEMPTED_BY_SCHEDULER, _T.PLACEHOLDER_REPLACED)
"""Terminations by which the core asks for a release; any other one is final (spec § 1.6.10)."""

WRONG = (_T.STOPPED_BY_RM, _T.UNKNOWN, *ASKED, _T.SCHEDULING_FAILED_ON_RM)

DELAYS: tuple[tuple[int, ...], ...] = ((0,), (0,), (0,), (1,), (2,), (5,), (9,), (0, 0), (0, 3), ())
"""Steps until a confirmation is sent: once, twice, or not at all."""


class Confirmations:
    """The confirmations that are still to be sent, and how many more steps they take."""

    def __init__(self) -> None:
        """Nobody was told anything yet."""
        self._pending: list[tuple[int, RmId, ReleaseRequest]] = []
        self._told: dict[str, int] = {}

    def hear(self, effects: Iterable[Effect]) -> None:
        """Think about what the RMs are told to stop."""
        for effect in effects:
            if isinstance(effect, AllocationsReleased):
                for told in effect.releases:
                    if told.termination in ASKED:
                        self._consider(effect, told)

    def due(self) -> list[Command]:
        """A step has passed: what is confirmed now, each RM's confirmations together."""
        sent: dict[RmId, list[ReleaseRequest]] = {}
        for steps, rm_id, request in self._pending:
            if steps <= 0:
                sent.setdefault(rm_id, []).append(request)
        self._pending = [(steps - 1, rm_id, request) for steps, rm_id, request in self._pending if steps > 0]
        return [releases(*requests, rm=rm_id) for rm_id, requests in sent.items()]

    def _consider(self, effect: AllocationsReleased, told: Release) -> None:
        what = f"{effect.rm_id} {told.app_id} {told.key} {told.termination.name}"
        times = self._told[what] = self._told.get(what, 0) + 1
        judged = crc32(f"{what} {times}".encode()) >> 8
        mood = judged // len(DELAYS)
        why = WRONG[mood // 8 % len(WRONG)] if mood % 8 == 0 else told.termination
        request = release(told.app_id, told.key, why=why, partition=effect.partition)
        for delay in DELAYS[judged % len(DELAYS)]:
            self._pending.append((delay, effect.rm_id, request))
