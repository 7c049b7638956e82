"""The board of the page's live part: RMs, partitions and queues (spec § 12.4).

There is one board for all viewers. An entry is written as JSON once, when it changes. The only state of a
viewer is its version of the board. So a slow viewer delays no other viewer and needs no memory: once it is
ready it gets the state of that time.
"""

from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import NamedTuple

from licorne_core.values.errors import NotFound
from licorne_core.values.ids import PartitionName, RmId
from licorne_core.views.partitions import RmReport
from licorne_server.http.stream import enclosed, encode
from licorne_server.http.ui.mirrors import Mirrors
from licorne_server.http.ui.rows import Key, finding_row, partition_row, queue_row, rm_row
from licorne_server.reads.sources import RmFigures, Sources

Visible = Callable[[str], bool]
"""True if the viewer may see the RM with this id."""

MAX_GONE = 1_000
"""Maximum number of retained removals of entries, for viewers with an older version."""

PART = 256
"""Maximum number of entries that are read without a pause."""


@dataclass(slots=True)
class _Entry:
    row: dict[str, object]
    version: int
    text: str
    round: int


class Board:
    """Entries by key. The first version is 1; a new viewer has version 0."""

    def __init__(self) -> None:
        """Start empty."""
        self.version = 0
        self._round = 0
        self._entries: dict[Key, _Entry] = {}
        # Partitions whose queues have not changed since the previous round.
        self._unchanged: set[str] = set()
        # The version at which each entry was removed. Viewers older than `_kept` need a full snapshot.
        self._gone: dict[Key, int] = {}
        self._kept = 0
        self._changed = False

    def begin(self) -> None:
        """Begin a round, in which every existing entry is put or kept."""
        self._round += 1
        self._unchanged.clear()
        # The first round makes a version even if there are no entries, because viewers wait for a version.
        self._changed = self.version == 0

    def put(self, key: Key, row: dict[str, object]) -> None:
        """Put an entry, which is written as JSON only if it has changed."""
        entry = self._entries.get(key)
        if entry is not None and entry.row == row:
            entry.round = self._round
            return
        self._changed = True
        self._entries[key] = _Entry(row, self.version + 1, encode(row), self._round)
        self._gone.pop(key, None)

    def keep(self, partition: str) -> None:
        """Retain all queue entries of a partition in this round."""
        self._unchanged.add(partition)

    def end(self) -> Iterator[None]:
        """End the round: drop entries that were neither put nor kept, and publish changed ones.

        The caller may pause at every step.
        """
        lost = False
        for number, (key, entry) in enumerate(tuple(self._entries.items()), 1):
            if entry.round != self._round and key.partition not in self._unchanged:
                lost = True
                del self._entries[key]
                self._gone[key] = self.version + 1
            if not number % PART:
                yield
        while len(self._gone) > MAX_GONE:
            oldest = next(iter(self._gone))
            self._kept = max(self._kept, self._gone.pop(oldest))
        if self._changed or lost:
            self.version += 1

    def since(self, version: int, visible: Visible | None) -> Iterator[str]:
        """Changes since a version, as members of a JSON object, in pieces.

        `visible` is True for the RMs that the viewer may see; None if it may see all. The reader may pause
        after every piece. Pieces may be empty.
        """
        whole = version == 0 or version < self._kept
        gone = () if whole else tuple(self._gone.items())
        return _pieces(tuple(self._entries.items()), gone, (version, self.version, whole), visible)


def _pieces(
    entries: Iterable[tuple[Key, _Entry]],
    gone: Iterable[tuple[Key, int]],
    versions: tuple[int, int, bool],
    visible: Visible | None,
) -> Iterator[str]:
    """The members of the object; `versions` has the old and the new version, and True for all entries."""
    have, now, whole = versions
    yield f'"version":{now},"whole":{encode(whole)}'
    lists: dict[str, list[str]] = {}
    for number, (key, entry) in enumerate(entries, 1):
        if (whole or entry.version > have) and _is_visible(key, visible):
            lists.setdefault(key.kind, []).append(entry.text)
        if not number % PART:
            yield ""
    lists["gone"] = [encode(key) for key, went in gone if went > have and _is_visible(key, visible)]
    for kind, texts in lists.items():
        if texts:
            yield from enclosed(f',"{kind}":[', texts, "]")


def _is_visible(key: Key, visible: Visible | None) -> bool:
    """True for an entry that the viewer may see; entries without an RM are visible to all."""
    return visible is None or not key.rm or visible(key.rm)


MAX_QUEUES = 5_000
"""Maximum number of queues that are shown live, in total. Each RM has an equal share; other RMs may use what
it leaves of its share. The deepest queues beyond the share of an RM are left out."""


class _QueueCount(NamedTuple):
    """Number of displayed queues of a partition; `cut` is True if some queues were left out."""

    queues: int
    cut: bool


def shares(wanted: Mapping[RmId, int], room: int) -> dict[RmId, int]:
    """Each RM's share of the room: its demand, or an equal share of the remainder.

    The smallest demands are served first, so that the others share the surplus.
    """
    given: dict[RmId, int] = {}
    for rm_id in sorted(wanted, key=lambda rm_id: wanted[rm_id]):
        given[rm_id] = min(wanted[rm_id], room // (len(wanted) - len(given)))
        room -= given[rm_id]
    return given


class Looker:
    """Puts RMs, partitions and queues on a board; skips the queues of idle partitions."""

    def __init__(self, sources: Sources, board: Board, mirrors: Mirrors | None = None) -> None:
        """Start without a look. Rows of other members in `mirrors` are put as well."""
        self._sources = sources
        self._mirrors = mirrors
        self._board = board
        # By partition: a value that changes with its activity, and the result of the last look.
        self._seen: dict[PartitionName, tuple[object, _QueueCount]] = {}

    def look(self, rms: Sequence[RmFigures], *, whole: bool) -> Iterator[None]:
        """Put all entries; the reader may pause at every step. `rms` are the current figures.

        A partition with the same counters as before is idle. Some changes are not counted, such as the stop
        of a queue, so a `whole` look skips no partition.
        """
        sources, board = self._sources, self._board
        board.begin()
        seen = {} if whole else self._seen
        self._seen = {}
        figures = {item.rm_id: item for item in rms}
        yield
        reports = sources.views.rms()
        yield
        mirrors = self._mirrors
        # Each member of the deployment has an equal share.
        most = MAX_QUEUES if mirrors is None else MAX_QUEUES // (1 + mirrors.count)
        rooms = shares({rm.rm_id: rm.counts.queues for rm in reports}, most)
        for rm in reports:
            room = rooms[rm.rm_id]
            of_rm = figures.get(rm.rm_id) or RmFigures(rm_id=rm.rm_id, connected=False)
            row = rm_row(rm, of_rm.connected, of_rm.since, sources.views.caps)
            board.put(Key("rms", rm.rm_id), row)
            self._put_events(rm.rm_id)
            yield
            for name in rm.partitions:
                with suppress(NotFound):
                    room -= yield from self._look_at(rm, name, seen.get(name), room)
        member = "" if sources.members is None else sources.members.name
        for finding in sources.verdicts.latest:
            row = finding_row(finding, member)
            board.put(Key("findings", finding.rm_id, "", str(row["id"])), row)
        if mirrors is not None:
            here = {rm.rm_id for rm in reports}
            for number, (key, entry) in enumerate(mirrors.rows(here, most), 1):
                board.put(key, entry)
                if not number % PART:
                    yield
        yield from board.end()

    def _put_events(self, rm_id: RmId) -> None:
        """Put the range of event ids, from which viewers know which events are new."""
        with suppress(NotFound):
            log = self._sources.events.get(rm_id)
            row = {"rm": rm_id, "instance": log.instance, "next": log.next_id}
            self._board.put(Key("logs", rm_id), row)

    def _look_at(
        self,
        rm: RmReport,
        name: PartitionName,
        before: tuple[object, _QueueCount] | None,
        room: int,
    ) -> Generator[None, None, int]:
        """Put a partition and its queues; return the number of displayed queues."""
        views = self._sources.views
        partition = views.partition(name)
        counters = replace(views.counters(name))
        signs = (partition, counters, rm.counts, rm.session, rm.checksum)
        if before is not None and before[0] == signs and before[1].queues <= room:
            self._board.keep(name)
            seen = before[1]
        else:
            seen = yield from self._look_at_queues(rm.rm_id, name, room)
        stopped = self._sources.recorder.stopped_in_an_hour(name)
        row = partition_row(partition, views.numbers(name), stopped, cut=seen.cut)
        self._board.put(Key("partitions", rm.rm_id, name), row)
        self._seen[name] = signs, seen
        yield
        return seen.queues

    def _look_at_queues(
        self, rm_id: RmId, name: PartitionName, room: int
    ) -> Generator[None, None, _QueueCount]:
        """Put at most `room` queues, level by level."""
        shown = 0
        for path in self._sources.views.level_by_level(name):
            yield
            if path is None:
                continue
            if shown == room:
                return _QueueCount(shown, cut=True)
            with suppress(NotFound):
                queue = self._sources.views.queue(name, path)
                self._board.put(Key("queues", rm_id, name, queue.path), queue_row(name, queue))
                shown += 1
        return _QueueCount(shown, cut=False)
