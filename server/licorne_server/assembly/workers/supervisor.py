"""The supervisor: reserves the addresses, serves the store, and keeps the workers running.

It ends with success after a signal, once all workers have drained. It ends with an error if a worker
cannot start the first time, or if every worker has failed repeatedly and none serves: then
the service manager should restart it, and report the failure.

Its state directory has applied configurations, marks and budgets. A single server has the same documents,
so that either can replace the other. State that only the running processes need is not stored: slices of
budgets, moves of RMs, the states of workers, and the secret. All workers end with their supervisor, and RMs
replay the usage from which slices are computed.
"""

import asyncio
import socket
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import structlog

from licorne_server.assembly.workers.worker import State, Worker
from licorne_server.process.clock import Clock, SystemClock
from licorne_server.process.loop import stop_task
from licorne_server.process.settings import Address, SettingsError
from licorne_server.reads.accounting import drop_old
from licorne_server.rms.budgets.escrow import BUDGETS
from licorne_server.store.coordination.local_service import LocalService, Records
from licorne_server.store.coordination.moving import MOVES
from licorne_server.store.coordination.ownership import STATUS, Known
from licorne_server.store.coordination.secret import KEY as SECRET
from licorne_server.store.documents.disk import Disk
from licorne_server.store.documents.documents import Documents, StoreError
from licorne_server.store.documents.encoding import encode
from licorne_server.store.documents.kept import Kept

log = structlog.get_logger("core.workers")

STORE = "store"
"""Name of the store's socket in the folder."""

LOOK_SECONDS = 1.0
"""Seconds between two checks of the running workers."""

STOP_SECONDS = 30.0
"""Seconds within which a worker has to end, after its drain."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """The processes of a supervisor. Times are in seconds."""

    folder: Path
    """Folder of the sockets, which only this user may enter."""
    commands: Sequence[Sequence[str]]
    """The command of each worker."""
    stderr: int
    """Descriptor for the logs of the workers."""
    drain: float
    stall: float
    """Time without a renewal after which a worker that had a lease is killed; 0 for no limit."""


class Supervisor:
    """The workers and their store."""

    failed: asyncio.Event
    """Set when the supervisor should end with an error."""

    def __init__(self, plan: Plan, clock: Clock | None = None, documents: Kept | None = None) -> None:
        """Prepare the workers. `documents` are those of the workers, already open, which `stop` closes."""
        self._plan = plan
        self._clock = clock or SystemClock()
        self._documents = documents or documents_of_workers(None)
        self.service = LocalService(Records(), self._documents, self._clock)
        self.failed = asyncio.Event()
        self._all_ready = asyncio.Event()
        self.workers = [
            Worker(number, command, plan.stderr, self._clock, self._changed)
            for number, command in enumerate(plan.commands, 1)
        ]
        self._runs: list[asyncio.Task[int]] = []
        self._looks: asyncio.Task[None] | None = None
        # When each serving worker was last seen with a lease.
        self._seen: dict[str, float] = {}

    async def start(self) -> bool:
        """Start all workers; returns True once all serve, False if one cannot start or `failed` is set."""
        # Epochs of RMs without a stored epoch also rise with every start, as in a server without workers.
        start = await rising(self._documents, int(self._clock.now() * 1e6))
        self.service.records.begin(start)
        await drop_old(self._documents, self._clock.now())
        await self.service.start(self._plan.folder / STORE)
        self._runs = [asyncio.create_task(worker.run(), name=worker.name) for worker in self.workers]
        waits = [asyncio.ensure_future(event.wait()) for event in (self._all_ready, self.failed)]
        await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        for wait in waits:
            wait.cancel()
        if self.failed.is_set():
            return False
        self._looks = asyncio.create_task(self._look_after(), name="looks")
        return True

    def reload(self) -> None:
        """Let all workers read their files again."""
        for worker in self.workers:
            worker.reload()

    def kill(self, reason: str) -> None:
        """End all workers at once."""
        for worker in self.workers:
            worker.kill(reason)

    async def stop(self) -> bool:
        """Let all workers drain and end; returns True if all have ended with success."""
        await stop_task(self._looks)
        for worker in self.workers:
            worker.stop()
        if self._runs:
            limit = self._plan.drain + STOP_SECONDS
            _, late = await asyncio.wait(self._runs, timeout=limit)
            if late:
                self.kill(f"it has not ended after {limit:g} s")
                await asyncio.wait(self._runs)
        await self.service.stop()
        await self._documents.close()
        return not any(run.result() for run in self._runs)

    def _changed(self, worker: Worker) -> None:
        if worker.state is not State.READY:
            self._seen.pop(worker.name, None)
            self._evict(worker)
        ready = [each.state is State.READY for each in self.workers]
        if all(ready):
            self._all_ready.set()
        elif not self._all_ready.is_set() and worker.state is State.WAITING:
            log.critical("worker cannot start", worker=worker.number)
            self.failed.set()
        elif all(each.restarts.hopeless for each in self.workers):
            log.critical("no worker serves, and all of them fail again and again")
            self.failed.set()
        self._publish()

    def _evict(self, worker: Worker) -> None:
        """End the leases of an ended process, so that other workers need not wait until they expire."""
        for member in tuple(self.service.records.snapshot(self._clock.now()).members.values()):
            if member.name == worker.name:
                self.service.records.end(member.id)
                log.info("lease ended", worker=worker.number, member=member.id)
        self.service.changed()

    async def _look_after(self) -> None:
        """Reset the failures of workers that serve long enough, and kill those without a renewed lease."""
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            now = self._clock.now()
            members = {member.name for member in self.service.records.snapshot(now).members.values()}
            for worker in self.workers:
                worker.restarts.look(now)
                if worker.name in members:
                    self._seen[worker.name] = now
                # The watchdog ends a process whose loop has stalled, but it cannot end a stopped process.
                limit = 2 * self._plan.stall
                if limit and now - self._seen.get(worker.name, now) > limit + LOOK_SECONDS:
                    del self._seen[worker.name]
                    worker.kill(f"it has not renewed its lease for {limit:g} s")
            self._publish()

    def _publish(self) -> None:
        """Publish the states of all workers to the workers."""
        value = encode(
            [
                Known(worker.number, worker.state.value, worker.restarts.count, worker.restarts.looping)
                for worker in self.workers
            ]
        )
        before = self._documents.get(STATUS)
        if before.value != value:
            self._documents.put(STATUS, value, before.revision)
            self.service.changed()


EPOCHS = "epochs"
"""Key of the stored upper bound of all epochs that were assigned to RMs without a stored epoch."""

CLAIMS = 1 << 24
"""Number of epochs that one run reserves: no later run assigns them, even after the clock is set back."""


def documents_of_workers(folder: Path | None) -> Kept:
    """The documents of all workers, in the state directory if there is one, or else in memory."""
    return Kept(None if folder is None else Disk(folder), (BUDGETS, MOVES, SECRET, STATUS))


async def rising(documents: Documents, start: int) -> int:
    """The number above which this run assigns epochs: `start`, or a higher number if the clock was set back.

    A full disk does not prevent the start.
    """
    start = max(start, int((await documents.read(EPOCHS)).value or 0))
    try:
        await documents.update(EPOCHS, lambda _: b"%d" % (start + CLAIMS))
    except StoreError as error:
        log.warning("epochs not stored", reason=str(error))
    return start


class Reservation:
    """A port reserved for the workers of one supervisor, until `close`.

    The kernel spreads connections over the processes that share it (SO_REUSEPORT).
    """

    address: Address
    """The address with the port that was bound."""

    def __init__(self, address: Address) -> None:
        """Bind the port without listening. Port 0 means any free one.

        Raises:
            SettingsError: the address is in use, or cannot be used.
        """
        self._sockets: list[socket.socket] = []
        self.address = address
        try:
            found = socket.getaddrinfo(
                address.host, address.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
            )
            for family, kind, protocol, _, where in found:
                self._bind(socket.socket(family, kind, protocol), where)
        except OSError as error:
            self.close()
            raise SettingsError(f"cannot listen on {address}: {error.strerror or error}") from None

    def close(self) -> None:
        """Release the port."""
        for each in self._sockets:
            each.close()

    def _bind(self, bound: socket.socket, where: Sequence[Any]) -> None:
        self._sockets.append(bound)
        if bound.family == socket.AF_INET6:
            bound.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        host, _, *rest = where
        # First bind without sharing: a port in use is refused, even if its user shares it.
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        bound.bind((host, self.address.port, *rest))
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        self.address = self.address.with_port(bound.getsockname()[1])
