"""The verdict on a server: its problems, their severity, and the time since which each exists.

`findings.py` has the rules. All outputs only display the verdict: `State.GetHealth` (also for `licorne
status` and REST), the page, the probes over HTTP, and the health service of gRPC.
"""

import asyncio
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from enum import IntEnum
from typing import NamedTuple

from licorne.v1 import state_pb2 as pb
from licorne_server.wire.responses import nanoseconds

SETTLE_SECONDS = 30.0
"""Seconds that a state has to last before it counts, so that a short one causes no alarm."""

MOST_OF_CONCERN = 50
"""Maximum number of findings of one concern that are named; the others are counted."""

SERVER, LISTENER = "server", "listener"
PROBED = frozenset({SERVER, LISTENER})
"""Concerns of the server's own status. They fail the probes, and count at once, as they have time limits."""


class Severity(IntEnum):
    """The severity of a finding."""

    OK = 0
    """The state has not lasted long enough to count."""
    DEGRADED = 1
    DOWN = 2
    """Nothing is scheduled because of the finding."""

    @property
    def word(self) -> str:
        """The severity as displayed."""
        return self.name.lower()


class Finding(NamedTuple):
    """A deviation from the normal state; see the message `Finding`."""

    severity: Severity
    concern: str
    text: str
    name: str = ""
    rm_id: str = ""
    since: float = 0.0
    """The time since which the finding is true, in unix seconds; 0 before the verdict has added it."""

    @property
    def identity(self) -> tuple[object, ...]:
        """The part of a finding that is equal in all examinations while the finding is true."""
        return self.concern, self.name, self.rm_id

    def message(self, member: str = "") -> pb.Finding:
        """The finding as `member` reports it; an empty name for a server without other members."""
        return pb.Finding(
            severity=self.severity.word,
            concern=self.concern,
            name=self.name,
            rm_id=self.rm_id,
            text=self.text,
            since=nanoseconds(self.since),
            member=member if self.concern in OF_MEMBER else "",
        )


OF_MEMBER = PROBED | {"memory", "disk", "journal"}
"""Concerns that each member has for itself."""


class Verdicts:
    """The latest verdict on this server, with the time since which each finding is true."""

    def __init__(self) -> None:
        """Start without findings."""
        self.lock = asyncio.Lock()
        """Held while the server is examined."""
        self.latest: tuple[Finding, ...] = ()
        """The findings of the last examination, the worst first."""
        self._first: dict[tuple[object, ...], float] = {}

    def settled(self, one: Finding, now: float) -> Finding:
        """The finding with the time since which it is true; its severity is OK until it counts."""
        since = one.since or self._first.setdefault(one.identity, now)
        counts = one.concern in PROBED or now - since >= SETTLE_SECONDS
        return one._replace(since=since, severity=one.severity if counts else Severity.OK)

    def concluded(self, found: Iterable[Finding | None], now: float) -> Iterator[Finding | None]:
        """The findings of the next verdict, the worst first; earlier findings missing in `found` have ended.

        The reader may pause at every None.
        """
        first: dict[tuple[object, ...], float] = {}
        ranked: list[tuple[tuple[object, ...], Finding]] = []
        for one in found:
            if one is not None:
                settled = self.settled(one, now)
                first[one.identity] = self._first.get(one.identity, now)
                ranked.append(((-settled.severity, settled.since, *settled.identity), settled))
            yield None
        self._first = first
        counts = Counter[tuple[str, str]]()
        for _, one in sorted(ranked):
            counts[one.concern, one.rm_id] += 1
            yield one if counts[one.concern, one.rm_id] <= MOST_OF_CONCERN + 1 else None


def _bounded(found: Iterable[Finding]) -> Iterator[Finding]:
    """The first findings of each concern, and a finding with the number of the others."""
    counts, more = Counter[str](), dict[str, Finding]()
    for one in found:
        counts[one.concern] += 1
        if counts[one.concern] <= MOST_OF_CONCERN:
            yield one
        else:
            more.setdefault(one.concern, one)
    for concern, first in more.items():
        rest = counts[concern] - MOST_OF_CONCERN
        yield Finding(first.severity, concern, f"{rest:,} more of this kind", since=first.since)


def is_live(found: Iterable[Finding]) -> bool:
    """False if only a restart will help."""
    return not any(one.concern in PROBED and one.severity is Severity.DOWN for one in found)


def is_ready(found: Iterable[Finding]) -> bool:
    """True if the server accepts RMs."""
    return not any(one.concern in PROBED for one in found)


def in_one_line(found: Iterable[Finding]) -> str:
    """``degraded: the server is draining``, or ``ok``; findings that do not count are left out."""
    counting = [one for one in found if one.severity]
    if not counting:
        return Severity.OK.word
    return f"{max(counting).severity.word}: {'; '.join(one.text for one in counting)}"


def health_message(
    found: Iterable[Finding], sees: Callable[[str], bool], rm_id: str, member: str, now: float
) -> pb.GetHealthResponse:
    """The findings that a caller may see, or those of one RM; `member` is the name of this member."""
    seen = (one for one in found if (one.rm_id == rm_id if rm_id else not one.rm_id or sees(one.rm_id)))
    shown = [one.message(member) for one in _bounded(seen)]
    scope = f"RM {rm_id}" if rm_id else "this server"
    return _summed(pb.GetHealthResponse(findings=shown, scope=scope, time=nanoseconds(now)))


def merged_health(_: pb.GetHealthRequest, answers: Sequence[pb.GetHealthResponse]) -> pb.GetHealthResponse:
    """The findings of all members; a finding of several members is listed once, with its highest severity."""
    every = [one for answer in answers for one in answer.findings]
    found = {
        (one.concern, one.name, one.rm_id, one.member): one for one in sorted(every, key=_worst, reverse=True)
    }
    whole = pb.GetHealthResponse(findings=found.values(), scope="all members", time=answers[0].time)
    return _summed(whole)


def note_silent(whole: pb.GetHealthResponse) -> None:
    """Add a finding without a time for each member that did not answer."""
    known = {one.name for one in whole.findings if one.concern == "member"}
    for name in whole.missing_members:
        if name not in known:
            silent = Finding(Severity.DEGRADED, "member", f"member {name} does not answer", name)
            whole.findings.append(silent.message())
    _summed(whole)


def _worst(one: pb.Finding) -> tuple[int, int]:
    """Sort key of a finding: the worst first, and of equal ones the oldest."""
    return -Severity[one.severity.upper()], one.since


def _summed(whole: pb.GetHealthResponse) -> pb.GetHealthResponse:
    """The answer, with its findings in order and the worst severity."""
    worst = sorted(whole.findings, key=lambda one: (*_worst(one), one.concern))
    del whole.findings[:]
    whole.findings.extend(worst)
    whole.severity = worst[0].severity if worst else Severity.OK.word
    return whole
