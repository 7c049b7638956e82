"""The first decision that differs between two runs of the same workload."""

from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, NamedTuple

from licorne_core.messages.commands import CONFIRMED
from licorne_core.messages.effects import AllocationsMade, AllocationsRejected, AllocationsReleased, Effect
from licorne_core.values.ids import AllocationKey, AppId, PartitionName, RmId
from licorne_server.lab.simulation.lives import Lives

TOLERANCE: Final = 1.0
"""Maximum seconds between equal decisions of both runs: in the live run turns and answers take time."""


class What(StrEnum):
    """Kind of a decision about an ask or an allocation."""

    PLACED = "placed"
    STOPPED = "stopped"
    REFUSED = "refused"


class Decision(NamedTuple):
    """A decision; `where` is the partition or, for an effect without a partition, the RM."""

    what: What
    where: PartitionName | RmId
    app_id: AppId
    key: AllocationKey


@dataclass(slots=True, kw_only=True)
class Difference:
    """The first decision that differs: its time in unix seconds, and both sides in words."""

    time: float
    decision: Decision
    live: str
    changed: str


def decisions(effects: Sequence[Effect]) -> Iterator[tuple[Decision, str]]:
    """The decisions in effects, in order, each with its node, or an empty text."""
    for effect in effects:
        if isinstance(effect, AllocationsMade):
            for made in effect.allocations:
                if not made.ask.node_id:
                    yield Decision(What.PLACED, effect.partition, made.ask.app_id, made.key), made.node_id
        elif isinstance(effect, AllocationsReleased):
            for release in effect.releases:
                if release.termination in CONFIRMED:
                    yield Decision(What.STOPPED, effect.partition, release.app_id, release.key), ""
        elif isinstance(effect, AllocationsRejected):
            for rejection in effect.rejections:
                yield Decision(What.REFUSED, effect.rm_id, rejection.app_id, rejection.key), ""


class _Open(NamedTuple):
    """A decision that the other run has not made yet."""

    time: float
    node: str
    is_live: bool


class Differing:
    """Follows both runs to the first decision that only one of them makes, and then the ask of that decision.

    Two decisions are the same if they name the same node and are at most `TOLERANCE` apart.
    """

    found: Difference | None

    def __init__(self, lives: Lives) -> None:
        """Begin before the first input; `lives` has the outcomes of the live run's asks."""
        self.found = None
        self._lives = lives
        # Decisions of each run, in order; a decision may be repeated, for example after a failure of the RM.
        self._open: dict[Decision, deque[_Open]] = {}
        self._followed = False

    def saw(self, now: float, effects: Sequence[Effect], *, is_live: bool) -> None:
        """Record decisions of one run, at a time that the other run has reached as well."""
        self.passes(now)
        if self.found is not None:
            if not is_live and not self._followed:
                self._follow(self.found, now, effects)
            return
        for decision, node in decisions(effects):
            mine = _Open(now, node, is_live)
            others = self._open.get(decision)
            if others is None or others[0].is_live == is_live:
                self._open.setdefault(decision, deque()).append(mine)
                continue
            other = others.popleft()
            if other.node != node:
                self._note(decision, *((mine, other) if is_live else (other, mine)))
                return
            # Insert the remaining entries again at the end, so that older decisions are first.
            del self._open[decision]
            if others:
                self._open[decision] = others

    def passes(self, now: float) -> None:
        """Record that both runs have reached this time."""
        if self.found is None and self._open:
            decision, [first, *_] = next(iter(self._open.items()))
            if first.time < now - TOLERANCE:
                self._note(decision, *((first, None) if first.is_live else (None, first)))

    def end(self) -> None:
        """Record that both runs have ended."""
        self.passes(float("inf"))

    def _note(self, decision: Decision, live: _Open | None, changed: _Open | None) -> None:
        time = min(one.time for one in (live, changed) if one is not None)
        self._open.clear()
        self.found = found = Difference(
            time=time, decision=decision, live=_told(decision, live), changed=_told(decision, changed)
        )
        self._followed = changed is not None or decision.what is not What.PLACED
        if live is None and decision.what is What.PLACED:
            life = self._lives.find((PartitionName(decision.where), decision.app_id, decision.key))
            if life is not None:
                found.live = _placed_later(life.node, life.placed - time)

    def _follow(self, found: Difference, now: float, effects: Sequence[Effect]) -> None:
        """Follow the ask that the live run has placed and this run has not."""
        for decision, node in decisions(effects):
            if decision == found.decision:
                found.changed = _placed_later(node, now - found.time)
                self._followed = True


def _told(decision: Decision, one: _Open | None) -> str:
    match decision.what, one:
        case What.PLACED, None:
            return "it waits until the end"
        case What.PLACED, _Open(node=node):
            return f"it goes to node {node}"
        case What.STOPPED, None:
            return "it continues to run"
        case What.STOPPED, _:
            return "its RM is asked to stop it"
        case _, None:
            return "it is taken"
        case _:
            return "it is refused"


def _placed_later(node: str, seconds: float) -> str:
    when = "later" if seconds >= 0 else "earlier"
    return f"it goes to node {node}, {abs(seconds):.3g} s {when}"
