"""One look at everything that the page shows live: RMs, partitions and queues (spec § 12.4)."""

from collections.abc import Generator, Iterator
from contextlib import suppress

from licorne_core.errors import NotFound
from licorne_core.ids import PartitionName, RmId, rm_of
from licorne_server.http.sources import RmFigures, Sources
from licorne_server.http.ui.board import Board, Key
from licorne_server.http.ui.rows import partition_row, queue_row, rm_row

MAX_QUEUES = 5_000
"""Queues of all partitions that are shown live. Behind them the deepest are left out."""


def look(sources: Sources, board: Board) -> Iterator[None]:
    """Put everything on the board, with a stop wherever the reader may pause."""
    views = sources.views
    board.begin()
    room = MAX_QUEUES
    figures = {item.rm_id: item for item in sources.figures().rms}
    for rm in views.rms():
        of_rm = figures.get(rm.rm_id) or RmFigures(rm_id=rm.rm_id, connected=False)
        link = of_rm.connected, of_rm.since
        board.put(Key("rms", rm.rm_id), rm_row(rm, *link, views.caps))
        _put_events(sources, board, rm.rm_id)
        yield
        for name in rm.partitions:
            with suppress(NotFound):
                room = yield from _look_at_partition(sources, board, name, room)
    board.end()


def _put_events(sources: Sources, board: Board, rm_id: RmId) -> None:
    """Which events there are: viewers that show them fetch what is new."""
    with suppress(NotFound):
        log = sources.events.get(rm_id)
        row = {"rm": rm_id, "instance": log.instance, "next": log.next_id}
        board.put(Key("logs", rm_id), row)


def _look_at_partition(
    sources: Sources, board: Board, name: PartitionName, room: int
) -> Generator[None, None, int]:
    """Put a partition and its queues, level by level; returns for how many queues is room left."""
    views, rm_id = sources.views, rm_of(name)
    waiting = ["root"]
    for path in waiting:
        if not room:
            break
        with suppress(NotFound):
            queue = views.queue(name, path)
            key = Key("queues", rm_id, name, queue.path)
            board.put(key, queue_row(name, queue))
            waiting += queue.child_names
            room -= 1
        yield
    row = partition_row(views.partition(name), cut=not room)
    board.put(Key("partitions", rm_id, name), row)
    yield
    return room
