"""What partitions remember of usage, by RM: it outlives the server, and follows the RM to its next owner.

The document of an RM has a line with the epoch of its owner, then packed JSON. It is written while the RM
runs, and read when the RM registers. A document that cannot be read is told, and usage starts at zero.
"""

import asyncio
import json
import zlib
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from operator import itemgetter
from typing import Any
from urllib.parse import quote

import structlog

from licorne_core.config.schema import Configuration, QueueConfig
from licorne_core.messages.kept import KeptByPartition
from licorne_core.values.ids import PartitionName, RmId
from licorne_core.views import Views
from licorne_server.engine.journal.kept import kept_forms, text
from licorne_server.process.clock import Clock, Periodic
from licorne_server.process.fair import TimeSlices
from licorne_server.process.walking import walked
from licorne_server.store.configurations.history import Configurations
from licorne_server.store.configurations.shared import MAX_HEAD, document_of, epoch_of, packed_of
from licorne_server.store.coordination.store import MAX_DOCUMENT, USAGE, Conflict, StoreError

log = structlog.get_logger("core.configurations.memories")

FLUSH_SECONDS = 30.0
"""Seconds between two writes, at most."""

LEAST_SECONDS = 1.0
"""Seconds between two writes, at least."""

PART_OF_LIFE = 0.005
"""Seconds between two writes, in half-lives: changes since the last write are what a killed server loses."""

FORMAT = 2
MAX_UNPACKED = 32 * 1024 * 1024
"""Bytes of an unpacked document, at most."""

PEER = "memories"


class Memories(Periodic):
    """Writes what the RMs of this server remember, and reads it for those that register."""

    def __init__(
        self,
        views: Views,
        configurations: Configurations,
        clock: Clock,
        time_slices: TimeSlices,
        epoch: Callable[[RmId], int],
    ) -> None:
        """Start without RMs. `epoch` gives the epoch of an RM that is served here, 0 for others."""
        super().__init__("memories", clock, LEAST_SECONDS)
        self._views = views
        self._keeper = configurations.keeper
        configurations.on_forget = self.forget
        self._time_slices = time_slices
        self._epoch = epoch
        # Text and revision of each document that this server has read or written.
        self._known: dict[RmId, tuple[bytes, int]] = {}
        self._failing: set[RmId] = set()
        self._forgotten: dict[RmId, None] = {}
        self._turn = asyncio.Lock()

    async def of(self, rm_id: RmId, config: object, *, is_live: bool) -> KeptByPartition:
        """What the RM's partitions are to remember, which registers with the configuration.

        `is_live` is True for an RM that is in the core, and is served by nobody else.

        Raises:
            StoreError: the store of the deployment does not answer.
        """
        if is_live:
            return await self._live(rm_id)
        if rm_id in self._forgotten:
            return {}
        try:
            document = await self._keeper.document(key_of(rm_id))
        except OSError as error:
            log.error("kept usage not read, it starts at zero", rm_id=rm_id, reason=str(error))
            return {}
        packed = packed_of(document.value)
        self._known[rm_id] = (packed, document.revision)
        if not packed:
            if isinstance(config, Configuration) and remembers(config):
                log.info("no usage is kept, it starts at zero", rm_id=rm_id)
            return {}
        try:
            return await asyncio.to_thread(unpack, packed)
        except ValueError as error:
            log.error("kept usage is damaged, it starts at zero", rm_id=rm_id, reason=str(error))
            return {}

    async def end(self) -> None:
        """Write for the last time."""
        await self.stop()
        await self.flush()

    async def _work(self) -> float:
        return self._clock.now() + await self.flush()

    async def flush(self) -> float:
        """Write what has changed; returns the seconds until the next time."""
        shortest = FLUSH_SECONDS / PART_OF_LIFE
        async with self._turn:
            while self._forgotten:
                await self._remove(next(iter(self._forgotten)))
            for rm_id, _, _ in self._views.registrations():
                if not self._epoch(rm_id):
                    continue
                memory = await self._live(rm_id)
                if memory:
                    shortest = min([shortest, *_lives(memory)])
                    await self._write(rm_id, await asyncio.to_thread(pack, memory))
        return max(LEAST_SECONDS, shortest * PART_OF_LIFE)

    def forget(self, rm_id: RmId) -> None:
        """Delete what is kept of an RM with the next write."""
        self._forgotten[rm_id] = None

    async def _remove(self, rm_id: RmId) -> None:
        """Delete the document; one that another owner has written since stays."""
        self._known.pop(rm_id, None)
        try:
            document = await self._keeper.document(key_of(rm_id))
            if document.revision and epoch_of(document) <= self._epoch(rm_id):
                await self._keeper.replace_document(key_of(rm_id), None, document.revision)
        except (OSError, StoreError) as error:
            log.warning("kept usage not deleted", rm_id=rm_id, reason=str(error))
        self._forgotten.pop(rm_id, None)

    async def _live(self, rm_id: RmId) -> KeptByPartition:
        steps = self._views.memory(rm_id)
        return dict(await walked(steps, partial(self._time_slices.slice, PEER)))

    async def _write(self, rm_id: RmId, packed: bytes) -> None:
        """Replace the document, unless another owner has it by now."""
        before, revision = self._known.get(rm_id, (b"", 0))
        if packed == before:
            return
        try:
            try:
                revision = await self._replace(rm_id, packed, revision)
            except Conflict:
                # Of an earlier owner, or an own write whose answer was lost.
                document = await self._keeper.document(key_of(rm_id))
                if epoch_of(document) > self._epoch(rm_id):
                    return
                revision = await self._replace(rm_id, packed, document.revision)
        except (OSError, StoreError, ValueError) as error:
            if rm_id not in self._failing:
                log.error("usage not kept", rm_id=rm_id, reason=str(error))
            self._failing.add(rm_id)
            return
        self._failing.discard(rm_id)
        self._known[rm_id] = (packed, revision)

    async def _replace(self, rm_id: RmId, packed: bytes, revision: int) -> int:
        value = document_of(packed, self._epoch(rm_id))
        return await self._keeper.replace_document(key_of(rm_id), value, revision)


def key_of(rm_id: RmId) -> str:
    """Key of the document of an RM."""
    return USAGE + quote(rm_id, safe="")


def remembers(config: Configuration) -> bool:
    """True if something is kept of a queue."""
    return any(_remembers(partition.root) for partition in config.partitions)


def _remembers(queue: QueueConfig) -> bool:
    own = any(form.is_wanted(queue) for form in kept_forms().values())
    return own or any(map(_remembers, queue.queues))


def _lives(memory: KeptByPartition) -> Iterator[float]:
    for of, form in kept_forms().items():
        for one in memory.values():
            yield from map(form.life, one.get(of, {}).values())


def pack(memory: KeptByPartition) -> bytes:
    """What an RM remembers as packed JSON; of too much the accounts that changed longest ago are left out.

    What stops asks is left out last.
    """
    lists: dict[str, list[list[Any]]] = {}
    for of, form in kept_forms().items():
        lists[form.name] = [
            [name, *form.write(*item)] for name, one in memory.items() for item in one.get(of, {}).items()
        ]
        lists[form.name].sort(key=itemgetter(1 + form.time), reverse=True)
    while True:
        packed = zlib.compress(json.dumps({"format": FORMAT, **lists}).encode())
        if len(packed) + MAX_HEAD <= MAX_DOCUMENT:
            return packed
        longer = next(name for name, entries in lists.items() if entries)
        lists[longer] = lists[longer][: len(lists[longer]) * 3 // 4]


def unpack(packed: bytes) -> KeptByPartition:
    """What was packed.

    Raises:
        ValueError: it is cut off, or something else.
    """
    try:
        unpacking = zlib.decompressobj()
        data = unpacking.decompress(packed, MAX_UNPACKED)
        if not unpacking.eof:
            raise ValueError("it is cut off, or too large")
        document = json.loads(data)
        if document["format"] != FORMAT:
            raise ValueError(f"it is of format {document['format']!r:.20}, not {FORMAT}")
        return _memory(document)
    except (zlib.error, KeyError, TypeError, AttributeError, RecursionError, OverflowError) as error:
        raise ValueError(f"{type(error).__name__}: {error}") from None


def _memory(document: Mapping[str, Any]) -> KeptByPartition:
    found: dict[PartitionName, dict[str, dict[Any, Any]]] = {}
    for of, form in kept_forms().items():
        for name, *entry in document[form.name]:
            key, value = form.read(entry)
            found.setdefault(PartitionName(text(name)), {}).setdefault(of, {})[key] = value
    return found
