"""Past usage in the partitions of RMs, which outlives the server and moves with an RM to its next owner.

It is written while the RM runs, and read when the RM registers. An unreadable document is logged, and
usage starts at zero.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import structlog

from licorne_core.config.schema import Configuration, QueueConfig
from licorne_core.messages.kept import KeptByPartition
from licorne_core.values.ids import PartitionName, RmId
from licorne_core.views import Views
from licorne_server.engine.journal.forms import TEXT, KeptForm, array, items, kept_forms
from licorne_server.process.clock import Clock, Periodic
from licorne_server.process.fair import TimeSlices, walked
from licorne_server.store.configurations.history import Configurations
from licorne_server.store.documents.documents import StoreError
from licorne_server.store.documents.encoding import Newer, encode, fields_in, made
from licorne_server.store.documents.owned import Damaged, DocumentForm, Owned, pack, unpack

log = structlog.get_logger("core.configurations.memories")

FLUSH_SECONDS = 30.0
"""Maximum seconds between two writes."""

LEAST_SECONDS = 1.0
"""Minimum seconds between two writes."""

PART_OF_LIFE = 0.005
"""Time between two writes, in half-lives. If the server is killed, changes since the last write are lost."""

FORMAT = 2
"""Version of the format. Format 3 must not be used, because unreleased servers wrote such documents."""
PEER = "memories"


class Memories(Periodic):
    """Writes the past usage of this server's RMs, and reads it for registering RMs."""

    def __init__(
        self,
        views: Views,
        configurations: Configurations,
        clock: Clock,
        time_slices: TimeSlices,
        epoch: Callable[[RmId], int],
    ) -> None:
        """Start without RMs. `epoch` returns the epoch of an RM that is served here, or 0."""
        super().__init__("memories", clock, LEAST_SECONDS)
        self._views = views
        self.stored = Owned(configurations.documents, MemoryForm(), epoch)
        """The documents of past usage."""
        configurations.on_forget = self.stored.drop
        self._time_slices = time_slices
        self._epoch = epoch

    async def of(self, rm_id: RmId, config: object, *, is_live: bool) -> KeptByPartition:
        """The past usage with which the partitions of an RM start, for a registration with `config`.

        `is_live` is True for an RM that is in the core, and that no other member serves.

        Raises:
            StoreError: the store of the deployment does not answer.
        """
        if is_live:
            return await self._live(rm_id)
        try:
            found = await self.stored.fetch(rm_id)
        except Damaged as error:
            log.error("kept usage is damaged, it starts at zero", rm_id=rm_id, reason=str(error))
            return {}
        if found is None and isinstance(config, Configuration) and remembers(config):
            log.info("no usage is kept, it starts at zero", rm_id=rm_id)
        return found or {}

    async def end(self) -> None:
        """Write the past usage for the last time."""
        await self.stop()
        await self.flush()
        await self.stored.close()

    async def _work(self) -> float:
        return self._clock.now() + await self.flush()

    async def flush(self) -> float:
        """Write the changes; returns the seconds until the next write."""
        shortest = FLUSH_SECONDS / PART_OF_LIFE
        for rm_id, _, _ in self._views.registrations():
            if not self._epoch(rm_id):
                continue
            memory = await self._live(rm_id)
            if memory:
                shortest = min([shortest, *_lives(memory)])
                await self.stored.write(rm_id, memory)
        return max(LEAST_SECONDS, shortest * PART_OF_LIFE)

    async def _live(self, rm_id: RmId) -> KeptByPartition:
        steps = self._views.memory(rm_id)
        return dict(await walked(steps, partial(self._time_slices.slice, PEER)))


def remembers(config: Configuration) -> bool:
    """True if past usage of any queue is retained."""
    return any(_remembers(partition.root) for partition in config.partitions)


def _remembers(queue: QueueConfig) -> bool:
    own = any(form.is_wanted(queue) for form in kept_forms().values())
    return own or any(map(_remembers, queue.queues))


def _lives(memory: KeptByPartition) -> Iterator[float]:
    for of, form in kept_forms().items():
        for one in memory.values():
            yield from map(form.life, one.get(of, {}).values())


class MemoryForm(DocumentForm[KeptByPartition]):
    """Past usage of an RM, as packed JSON."""

    prefix = "usage/"
    what = "usage"

    def encode(self, rm_id: RmId, value: KeptByPartition, largest: int) -> bytes:
        """Encode the state; if it is too large, without the accounts that have been unchanged for longest."""
        lists: dict[str, list[Any]] = {}
        for of, form in kept_forms().items():
            found = [(name, *item) for name, one in value.items() for item in one.get(of, {}).items()]
            found.sort(key=lambda entry: entry[2].time, reverse=True)
            lists[form.name] = _entries(form, found)
        while True:
            try:
                content = pack(encode({"format": FORMAT, **lists}))
            except ValueError as error:
                raise StoreError(f"it has a number that cannot be: {error}") from None
            if len(content) <= largest:
                return content
            longer = next(name for name, entries in lists.items() if entries)
            lists[longer] = lists[longer][: len(lists[longer]) * 3 // 4]

    def decode(self, rm_id: RmId, content: bytes) -> KeptByPartition:
        """Decode past usage. See `DocumentForm`."""
        try:
            document = fields_in(unpack(content), FORMAT)
            if document["format"] != FORMAT:
                raise Damaged(f"it is of format {document['format']}, not {FORMAT}")
            return _memory(document)
        except Newer:
            raise
        except (ValueError, LookupError, TypeError) as error:
            raise Damaged(f"{type(error).__name__}: {error}") from None


def _entries(form: KeptForm, found: Sequence[tuple[PartitionName, Any, Any]]) -> list[Any]:
    """The entries of a document: partition, names of the owner, and columns of the value."""
    pack = array(TEXT, form.owner, form.stored).pack
    assert pack is not None
    return [[name, *owner, *value] for name, owner, value in map(pack, found)]


def _memory(document: Mapping[str, Any]) -> KeptByPartition:
    found: dict[PartitionName, dict[str, dict[Any, Any]]] = {}
    for of, form in kept_forms().items():
        columns = {row.name: tuple(row.columns) for row in (*form.rows, form.stored)}
        wire, make = items(array(TEXT, form.owner, form.stored)).reading(columns)
        nested = [(name, (path, of), value) for name, path, of, *value in document[form.name]]
        entries = made(nested, wire)
        for name, owner, value in entries if make is None else make(entries):
            found.setdefault(name, {}).setdefault(of, {})[owner] = value
    return found
