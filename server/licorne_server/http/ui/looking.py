"""Looks at the live part of the page: RMs, partitions and queues (spec § 12.4)."""

from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import NamedTuple

from licorne_core.values.errors import NotFound
from licorne_core.values.ids import PartitionName, RmId
from licorne_core.views.partitions import RmReport
from licorne_server.http.sources import RmFigures, Sources
from licorne_server.http.ui.board import Board, Key
from licorne_server.http.ui.rows import partition_row, queue_row, rm_row

MAX_QUEUES = 5_000
"""Queues of all partitions that are shown live. Each RM may have an equal share, and what an RM
does not need others have. Beyond it the deepest queues of an RM are left out."""


class _Seen(NamedTuple):
    """Number of shown queues of a partition, and a flag for having left some out."""

    queues: int
    cut: bool


def shares(wanted: Mapping[RmId, int], room: int) -> dict[RmId, int]:
    """Share of the room for each: its demand, or an equal part of the rest.

    The smallest demands come first, so that their surplus is shared by the others.
    """
    given: dict[RmId, int] = {}
    for rm_id in sorted(wanted, key=lambda rm_id: wanted[rm_id]):
        given[rm_id] = min(wanted[rm_id], room // (len(wanted) - len(given)))
        room -= given[rm_id]
    return given


class Looker:
    """Puts what there is on a board. It passes by the queues of partitions that were idle."""

    def __init__(self, sources: Sources, board: Board) -> None:
        """Start without a look."""
        self._sources = sources
        self._board = board
        # What was seen of each partition, and by what one would tell that something has happened.
        self._seen: dict[PartitionName, tuple[object, _Seen]] = {}

    def look(self, rms: Sequence[RmFigures], *, whole: bool) -> Iterator[None]:
        """Look once, with a stop wherever the reader may pause; `rms` are the figures of now.

        Counters show an idle partition. Some changes are not counted, such as a stopped queue: a
        `whole` look skips nothing.
        """
        sources, board = self._sources, self._board
        board.begin()
        seen = {} if whole else self._seen
        self._seen = {}
        figures = {item.rm_id: item for item in rms}
        yield
        reports = sources.views.rms()
        yield
        rooms = shares({rm.rm_id: rm.counts.queues for rm in reports}, MAX_QUEUES)
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
        yield from board.end()

    def _put_events(self, rm_id: RmId) -> None:
        """Put the range of events: viewers that show them fetch the new ones."""
        with suppress(NotFound):
            log = self._sources.events.get(rm_id)
            row = {"rm": rm_id, "instance": log.instance, "next": log.next_id}
            self._board.put(Key("logs", rm_id), row)

    def _look_at(
        self,
        rm: RmReport,
        name: PartitionName,
        before: tuple[object, _Seen] | None,
        room: int,
    ) -> Generator[None, None, int]:
        """Put a partition and its queues; returns how many queues are shown."""
        views = self._sources.views
        partition = views.partition(name)
        counters = replace(views.counters(name))
        signs = (partition, counters, rm.counts, rm.session, rm.checksum)
        if before is not None and before[0] == signs and before[1].queues <= room:
            self._board.keep(name)
            seen = before[1]
        else:
            seen = yield from self._look_at_queues(rm.rm_id, name, room)
        row = partition_row(partition, cut=seen.cut)
        self._board.put(Key("partitions", rm.rm_id, name), row)
        self._seen[name] = signs, seen
        yield
        return seen.queues

    def _look_at_queues(
        self, rm_id: RmId, name: PartitionName, room: int
    ) -> Generator[None, None, _Seen]:
        """Put the queues level by level, as many as there is room for."""
        shown = 0
        for path in self._sources.views.level_by_level(name):
            yield
            if path is None:
                continue
            if shown == room:
                return _Seen(shown, cut=True)
            with suppress(NotFound):
                queue = self._sources.views.queue(name, path)
                self._board.put(Key("queues", rm_id, name, queue.path), queue_row(name, queue))
                shown += 1
        return _Seen(shown, cut=False)
