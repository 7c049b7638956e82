"""Resource-hours by hour, partition, queue, user and group: sums, bounded in rows and in days.

Amounts times microseconds are stored as whole numbers, so that sums are exact and cannot overflow.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from licorne.v1 import state_pb2 as pb
from licorne_core.values.errors import shown
from licorne_core.values.ids import PartitionName, bare_partition, rm_of
from licorne_core.values.slices import in_runs
from licorne_server.process.fair import Slices, walked
from licorne_server.reads.paging import MAX_PAGE_SIZE, PAGE_SIZE, Page, filled, place_token, read_place
from licorne_server.wire.errors import invalid_argument
from licorne_server.wire.features import names

HOUR = 3600
MICROSECONDS = 1_000_000
PER_HOUR = HOUR * MICROSECONDS

MOST_ROWS = 100_000
"""Maximum number of rows of all hours, about 50 MB; beyond it whole hours are dropped, the oldest first."""

MOST_DAYS = 400
OTHERS = "(others)"
PART = 500
KINDS = ("queue", "user", "group")
_PARTS: Final[dict[str, str]] = names("HOURS")


class HoursOwner(NamedTuple):
    """The owner of a row's usage; user and group may be empty."""

    partition: str
    queue: str
    user: str
    group: str

    @property
    def others(self) -> "HoursOwner":
        """The owner of all usage of the partition for which there are no further rows."""
        return HoursOwner(self.partition, OTHERS, OTHERS, "")


@dataclass(slots=True)
class HoursRow:
    """The usage of one owner in an hour, in amounts times microseconds."""

    used: dict[str, int] = field(default_factory=dict)
    ended: int = 0
    preempted: int = 0
    lost: dict[str, int] = field(default_factory=dict)
    passing: dict[str, int] = field(default_factory=dict)
    """The part of `used` by allocations that passed a claim."""

    def add(self, other: "HoursRow") -> None:
        """Add another row."""
        self.ended += other.ended
        self.preempted += other.preempted
        pairs = ((self.used, other.used), (self.lost, other.lost), (self.passing, other.passing))
        for mine, theirs in pairs:
            for name, value in theirs.items():
                mine[name] = mine.get(name, 0) + value

    @property
    def is_empty(self) -> bool:
        """True if all values are 0."""
        sums = (*self.used.values(), *self.lost.values(), *self.passing.values())
        return not (self.ended or self.preempted or any(sums))


class Hours:
    """Rows by hour, the oldest first. An hour is the unix time of its beginning, in seconds."""

    def __init__(self) -> None:
        """Start empty."""
        self.by_hour: dict[int, dict[HoursOwner, HoursRow]] = {}
        self.rows = 0

    def add(self, hour: int, place: HoursOwner, row: HoursRow) -> None:
        """Add to the row of a place; above `MOST_ROWS` the oldest hours are dropped, but never the latest."""
        rows = self.by_hour.get(hour)
        if rows is None:
            rows = self.by_hour[hour] = {}
            if len(self.by_hour) > 1 and hour < list(self.by_hour)[-2]:
                self.by_hour = dict(sorted(self.by_hour.items()))
            self._drop_before(hour - MOST_DAYS * 24 * HOUR)
        known = rows.get(place)
        if known is None:
            while self.rows >= MOST_ROWS and len(self.by_hour) > 1:
                oldest = next(iter(self.by_hour))
                self._drop(oldest)
                if oldest == hour:
                    return
            if self.rows >= MOST_ROWS:
                place = place.others
                known = rows.get(place)
        if known is None:
            known = rows[place] = HoursRow()
            self.rows += 1
        known.add(row)

    def spread(self, begin: float, end: float, place: HoursOwner, row: HoursRow) -> None:
        """Spread usage from `begin` to `end` evenly over the hours; ended allocations count in the last."""
        first, last = int(begin) // HOUR * HOUR, max(int(begin), int(end)) // HOUR * HOUR
        left, passing = dict(row.used), dict(row.passing)
        for hour in range(max(first, last - MOST_DAYS * 24 * HOUR), last, HOUR):
            share = (hour + HOUR - max(begin, hour)) / (end - begin)
            part = HoursRow(_part(left, row.used, share), passing=_part(passing, row.passing, share))
            self.add(hour, place, part)
        self.add(last, place, HoursRow(left, row.ended, row.preempted, row.lost, passing))

    def hour(self, hour: int) -> Mapping[HoursOwner, HoursRow]:
        """The rows of an hour."""
        return self.by_hour.get(hour, {})

    @property
    def kept_since(self) -> int:
        """The oldest retained hour, in unix seconds; 0 if there is none."""
        return next(iter(self.by_hour), 0)

    def _drop_before(self, oldest: int) -> None:
        while self.by_hour and next(iter(self.by_hour)) < oldest:
            self._drop(next(iter(self.by_hour)))

    def _drop(self, hour: int) -> None:
        self.rows -= len(self.by_hour.pop(hour))


def _part(left: dict[str, int], whole: Mapping[str, int], share: float) -> dict[str, int]:
    """A share of the whole amounts, which is subtracted from the remainder `left`."""
    part = {name: int(value * share) for name, value in whole.items()}
    for name, value in part.items():
        left[name] -= value
    return part


class Summary:
    """Totals over hours, by queue, user or group. A queue includes its descendants."""

    def __init__(self, by: str) -> None:
        """`by` is one of `KINDS`."""
        self._by = by
        self.sums: dict[tuple[str, str], HoursRow] = {}
        """Rows by partition and name."""

    def add(
        self, hours: Iterable[Mapping[HoursOwner, HoursRow]], wanted: Callable[[str], bool]
    ) -> Iterator[None]:
        """Add the rows of the `wanted` partitions; the caller may pause at every step."""
        number = 0
        for rows in list(hours):
            for place, row in list(rows.items()):
                if wanted(place.partition):
                    for name in self._names(place):
                        self.sums.setdefault((place.partition, name), HoursRow()).add(row)
                number += 1
                if not number % PART:
                    yield

    def _names(self, place: HoursOwner) -> Iterator[str]:
        if self._by != "queue":
            name = place.user if self._by == "user" else place.group
            if name:
                yield name
            return
        path = place.queue
        while path:
            yield path
            path = path.rpartition(".")[0]

    async def page(
        self, token: str, size: int, slices: Slices, budget: int = 0
    ) -> pb.ListResourceHoursResponse:
        """The page of totals after a page token, by partition and name; it is encoded in time slices.

        The page also ends at `budget` bytes, see `Page`.

        Raises:
            CallError: the token is not from this list.
        """
        behind, sums = read_token(token), self.sums
        keys = in_runs(sums, fits=None if behind is None else lambda key: key > behind)
        page = Page(keys, lambda key: hours_message(*key, sums[key]), size=size, budget=budget)
        await filled(page, slices)
        return pb.ListResourceHoursResponse(rows=page.rows, next_page_token=place_token(page.last))


def read_token(token: str) -> tuple[str, str] | None:
    """The partition and the name after which a page begins; None for the first page.

    Raises:
        CallError: the text is no token of this list.
    """
    if not token:
        return None
    partition, name = read_place(token, str, str)
    return partition, name


class Wanted(NamedTuple):
    """The hours, partitions and sums of a request."""

    by: str
    first: int
    """The first hour, in unix seconds."""
    behind: float
    """End of the period, in unix seconds."""
    partition: str
    """The full or the bare name of a partition; empty for all partitions."""

    @classmethod
    def of(cls, by: str, since: float, until: float, partition: str, now: float) -> "Wanted":
        """Read a request, with times in unix seconds; 0 for a missing one.

        Raises:
            CallError: there are no sums by `by`, or no such hours.
        """
        by = by or KINDS[0]
        if by not in KINDS:
            raise invalid_argument(f"by {shown(by)} is none of {', '.join(KINDS)}", "by")
        return cls(by, int(since) // HOUR * HOUR, until or now + 1, partition)

    def has(self, partition: str) -> bool:
        """True if the partition was requested."""
        return not self.partition or self.partition in (partition, bare_partition(PartitionName(partition)))

    async def page(
        self,
        hours: Hours,
        may_see: Callable[[str], bool],
        slices: Slices,
        *,
        token: str = "",
        size: int,
        budget: int = 0,
    ) -> pb.ListResourceHoursResponse:
        """A page of the sums over the partitions that the caller may see; see `Summary.page`."""
        total = Summary(self.by)
        chosen = [rows for hour, rows in hours.by_hour.items() if self.first <= hour < self.behind]

        def wanted(partition: str) -> bool:
            return self.has(partition) and may_see(rm_of(PartitionName(partition)))

        await walked(total.add(chosen, wanted), slices)
        page = await total.page(token, size, slices, budget)
        page.kept_since = hours.kept_since * 10**9
        return page


def merged_hours(
    request: pb.ListResourceHoursRequest, answers: Sequence[pb.ListResourceHoursResponse]
) -> pb.ListResourceHoursResponse:
    """A page of the totals of all members, merged from one page of each.

    Rows after the end of the shortest page are left for the next page. The hours of an RM that has moved are
    spread over the members that served it.
    """
    ends = [end for answer in answers if (end := read_token(answer.next_page_token)) is not None]
    sums: dict[tuple[str, str], pb.ResourceHours] = {}
    for row in (row for answer in answers for row in answer.rows):
        key = (row.partition, row.name)
        if ends and key > min(ends):
            continue
        found = sums.setdefault(key, row)
        if found is not row:
            found.allocations += row.allocations
            found.preempted += row.preempted
            for field_name in ("hours", "preempted_hours", *_PARTS):
                mine = getattr(found, field_name)
                for name, value in getattr(row, field_name).items():
                    mine[name] += value
    keys, most = sorted(sums), min(request.page_size or PAGE_SIZE, MAX_PAGE_SIZE)
    last = min(ends, default=None)
    if len(keys) > most:
        last = keys[most - 1]
    return pb.ListResourceHoursResponse(
        rows=[sums[key] for key in keys[:most]],
        next_page_token=place_token(last),
        kept_since=min((answer.kept_since for answer in answers if answer.kept_since), default=0),
    )


def hours_message(partition: str, name: str, row: HoursRow) -> pb.ResourceHours:
    """A total as a message."""
    return pb.ResourceHours(
        partition=partition,
        name=name,
        hours=in_hours(row.used),
        allocations=row.ended,
        preempted=row.preempted,
        preempted_hours=in_hours(row.lost),
        **{name: in_hours(getattr(row, part)) for name, part in _PARTS.items()},
    )


def in_hours(used: Mapping[str, int]) -> dict[str, float]:
    """Convert to amounts times hours; zeros are left out."""
    return {name: value / PER_HOUR for name, value in sorted(used.items()) if value}
