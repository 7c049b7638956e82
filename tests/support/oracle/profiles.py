"""Free amounts on a node, or under a maximum, over time, less what planned starts reserve of them."""

from collections.abc import Mapping
from math import inf, nextafter
from typing import TYPE_CHECKING

from support.oracle.books import Amounts, AppRecord, AskRecord, add_to
from support.oracle.order import Look

if TYPE_CHECKING:
    from support.oracle.backfill import ShadowRecord

FEWEST_RUNS = 3
GRACE = 5.0


def extended(end: float, now: float) -> float:
    """An end that is overdue is expected soon, but the later the longer it is overdue."""
    late = GRACE
    while end <= now and end + late <= now:
        late *= 2
    return end if end > now else end + late


def expected_runtime(runs: Mapping[object, list[float]], app: AppRecord, ask: AskRecord) -> float:
    """The declared runtime, or a known one that four fifths of equal asks' runs do not exceed; else inf."""
    if ask.declared < inf:
        return ask.declared
    known = runs.get(alike(app, ask), [])
    if len(known) < FEWEST_RUNS:
        return inf
    return min(longest for longest in known if 5 * sum(one <= longest for one in known) >= 4 * len(known))


def alike(app: AppRecord, ask: AskRecord) -> object:
    """What the runs of asks are recorded by."""
    return app.queue, tuple(sorted(ask.size.items()))


def runs_after(ask: AskRecord, other: "ShadowRecord") -> float:
    """Seconds that an ask runs, for a start planned after its own: then its learnt runtime counts as well."""
    own: ShadowRecord | None = ask.shadow
    if own is None or other.serial < own.serial or ask.runs < inf:
        return ask.runs
    return own.end - own.start


class Profile:
    """Free amounts over time: ends add to them, and planned starts take some until they end."""

    def __init__(
        self,
        look: Look,
        size: Amounts,
        free: Amounts,
        ends: list[tuple[float, Amounts, bool]],
        held: list[tuple["ShadowRecord", Amounts]],
        own: "ShadowRecord | None",
    ) -> None:
        self.size, self.free, self.ends = size, free, ends
        # An overdue start counts as now, with its full runtime. Starts planned later give way to it.
        late = [
            (max(0.0, look.now - other.start), other, taken)
            for other, taken in held
            if own is None or not own.overdue or other.serial < own.serial
        ]
        self.others = [(other.start + more, other.end + more, taken) for more, other, taken in late]
        self.later = [other for more, other, _ in late if not more]
        self.times = [end for end, _, _ in ends] + [end for _, end, _ in self.others]

    def fits(self, time: float) -> bool:
        """True if the ask fits at that time."""
        free = dict(self.free)
        for end, size, _ in self.ends:
            if end <= time:
                add_to(free, size)
        for start, end, size in self.others:
            if start <= time < end:
                add_to(free, {name: -value for name, value in size.items()})
        return all(free.get(name, 0) >= value for name, value in self.size.items())

    def lasts(self, look: Look, ask: AskRecord, time: float) -> bool:
        """True if the ask fits from that time until its end."""
        begins = [other.start for other in self.later if time < other.start < time + runs_after(ask, other)]
        return all(map(self.fits, [time, *begins]))

    def since(self, look: Look, ask: AskRecord, time: float) -> tuple[bool, float]:
        """Whether the room at `time` begins with an uncertain end, and its negated earliest begin."""
        runs = {other.start - runs_after(ask, other) for other in self.later}
        times = {
            look.now,
            *self.times,
            *(start for start, _, _ in self.others),
            *runs,
            *(nextafter(one, inf) for one in runs),
        }
        found = time
        for one in sorted((one for one in times if look.now <= one <= time), reverse=True):
            if not self.lasts(look, ask, one):
                break
            found = one
        return any(unsure and end <= found for end, _, unsure in self.ends), -found
