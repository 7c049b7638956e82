"""Marks of a history: changes of an RM, with their times and texts."""

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

from licorne_core.values.ids import PartitionName, RmId
from licorne_server.store.configurations.revisions import Mark as OperatorMark
from licorne_server.store.configurations.revisions import MarkKind, Revisions

MAX_MARKS = 500
"""Maximum number of retained marks of an RM: the latest."""

MAX_RMS = 1_024
"""Maximum number of RMs whose marks are retained, which is the bound on RMs."""

MOST_AT_ONCE = 20
"""Maximum number of operators' marks that are recorded one by one in a step; further marks are combined."""

_WORDS = {
    MarkKind.NODE: ("cordon", "node {} cordoned", "node {} takes work again"),
    MarkKind.QUEUE: ("stop", "queue {} stopped", "queue {} started"),
    MarkKind.HOLD: ("stop", "application {} held", ""),
    MarkKind.CHANGE: ("stop", "application {} changed", ""),
}
"""For each kind of mark: its kind in the history, its text, and its end's text if that is recorded."""


class Mark(NamedTuple):
    """A change at a time, in unix seconds; `partition` is empty for a change of the whole RM."""

    time: float
    kind: str
    """``configuration``, ``restart``, ``registration``, ``cordon`` or ``stop``."""
    text: str
    partition: str = ""


class _Seen(NamedTuple):
    """The state of an RM in the last step."""

    registration: tuple[float, int]
    revisions: Revisions | None


class Marks:
    """The latest marks of each RM."""

    def __init__(self, revisions: Callable[[RmId], Revisions | None]) -> None:
        """`revisions` has the configurations of an RM, and the acts of operators."""
        self._revisions = revisions
        self._seen: dict[RmId, _Seen] = {}
        self._kept: dict[RmId, deque[Mark]] = {}

    def watch(self, rms: Iterable[tuple[RmId, float, int]], now: float) -> Iterator[None]:
        """Record changes since the last step; the caller may pause at every step.

        `rms` are the registrations, each with its time and its session.
        """
        for rm_id, registered, session in rms:
            before = self._seen.get(rm_id)
            seen = _Seen((registered, session), self._revisions(rm_id))
            self._seen[rm_id] = seen
            if before is None or before.registration != seen.registration:
                self._note(rm_id, Mark(registered, "registration", f"RM {rm_id} registered"))
            if before is not None and seen.revisions is not before.revisions:
                for mark in _changes(before.revisions, seen.revisions, now):
                    self._note(rm_id, mark)
            yield

    def of(self, rm_id: RmId, partition: PartitionName, since: float) -> list[Mark]:
        """The marks of a partition since a time, the oldest first."""
        kept = self._kept.get(rm_id, ())
        return [mark for mark in kept if mark.time >= since and mark.partition in ("", partition)]

    def _note(self, rm_id: RmId, mark: Mark) -> None:
        marks = self._kept.pop(rm_id, None) or deque(maxlen=MAX_MARKS)
        marks.append(mark)
        # The RM with the latest mark is last in the dictionary, and is dropped last.
        self._kept[rm_id] = marks
        while len(self._kept) > MAX_RMS:
            oldest = next(iter(self._kept))
            del self._kept[oldest]
            self._seen.pop(oldest, None)


def _changes(before: Revisions | None, after: Revisions | None, now: float) -> Iterator[Mark]:
    """The marks of configurations that have come into force, and of acts of operators."""
    if after is None or before is None:
        return
    known = before.current.number if before.kept else 0
    for revision in after.kept:
        if revision.number > known:
            text = f"configuration {revision.number} in force{_by(revision.by, revision.comment)}"
            yield Mark(now, "configuration", text)
    if after.marks is not before.marks:
        yield from _of_operators(before.marks, after.marks, now)


def _of_operators(
    before: tuple[OperatorMark, ...], after: tuple[OperatorMark, ...], now: float
) -> Iterator[Mark]:
    old = {mark.key: mark for mark in before}
    new = {mark.key: mark for mark in after}
    begun = [mark for key, mark in new.items() if old.get(key) != mark]
    ended = [mark for key, mark in old.items() if key not in new and not mark.kind.is_of_application]
    for mark in begun[:MOST_AT_ONCE]:
        kind, words, _ = _WORDS[mark.kind]
        yield Mark(now, kind, words.format(mark.name) + _by(mark.by, mark.why), mark.partition)
    for mark in ended[:MOST_AT_ONCE]:
        kind, _, words = _WORDS[mark.kind]
        yield Mark(now, kind, words.format(mark.name), mark.partition)
    more = len(begun[MOST_AT_ONCE:]) + len(ended[MOST_AT_ONCE:])
    if more:
        yield Mark(now, "stop", f"{more} more marks of operators")


def _by(who: str, why: str) -> str:
    return (f" by {who}" if who else "") + (f": {why}" if why else "")
