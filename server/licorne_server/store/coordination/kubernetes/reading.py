"""Reads members, owners and shared documents repeatedly.

Each round lists everything, then follows changes by watches from the versions of the lists. A watch only
makes reads earlier: the next round includes the changes that it has missed. A round ends early if a watch
ends, for example with status 410.
"""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field

import structlog

from licorne_server.store.coordination.kubernetes.api import CONFIG_MAPS, LEASES, MAX_OBJECTS, Api, Resource
from licorne_server.store.coordination.kubernetes.objects import (
    DEPLOYMENT,
    KIND,
    SHARED_KIND,
    Json,
    MemberLease,
    kind_of,
    name_of,
    read_document,
    read_member_lease,
    read_rm_lease,
)
from licorne_server.store.coordination.kubernetes.sightings import Sightings
from licorne_server.store.coordination.store import Member, Ownership, Snapshot
from licorne_server.store.documents.documents import Conflict, Document, StoreError

log = structlog.get_logger("core.coordination.kubernetes")

_AT_ONCE = 10
"""Maximum number of Leases of ended members that a round removes."""

_LEAST_WAIT = 0.01
"""Seconds between two checks of leases that are about to end."""

_LEAST_PAUSE = 1.0
"""Seconds between two rounds that end early."""

_Entry = MemberLease | Ownership | tuple[str, Document]


@dataclass(slots=True)
class _State:
    """The objects that were read, by name."""

    entries: dict[str, _Entry] = field(default_factory=dict)
    versions: dict[str, str] = field(default_factory=dict)
    """Versions of the lists, by the plural of the kind."""


class Reader:
    """The reader of one watch of a store."""

    def __init__(
        self,
        api: Api,
        deployment: str,
        sightings: Sightings,
        clock: Callable[[], float],
        *,
        lease: float,
        reread: float,
    ) -> None:
        """Read the objects of a deployment; `lease` is the duration of Leases that state none."""
        self._api = api
        self._sightings = sightings
        self._clock = clock
        self._lease = lease
        self._reread = reread
        self._selectors = {
            LEASES: f"{DEPLOYMENT}={deployment}",
            CONFIG_MAPS: f"{DEPLOYMENT}={deployment},{KIND}={SHARED_KIND}",
        }
        self._state = _State()
        self._changed = asyncio.Event()
        self._failed = False
        # Unreadable objects, so that each is logged once.
        self._unreadable: set[str] = set()

    async def run(self, publish: Callable[[Snapshot], None]) -> None:
        """Publish a snapshot after each round and each change, until cancelled."""
        loop = asyncio.get_running_loop()
        while True:
            begun = loop.time()
            try:
                await self._read_all()
            except StoreError as error:
                self._log_failure(error)
            else:
                self._failed = False
                publish(self._snapshot())
                await self._remove_ended()
                await self._follow(begun + self._reread, publish)
            await asyncio.sleep(begun + min(self._reread, _LEAST_PAUSE) - loop.time())

    def _log_failure(self, error: StoreError) -> None:
        if not self._failed:
            log.warning("members and owners cannot be read from Kubernetes", reason=str(error))
        self._failed = True

    async def _read_all(self) -> None:
        state = _State()
        for resource, labels in self._selectors.items():
            found, state.versions[resource.plural] = await self._api.list_all(resource, labels)
            for item in found:
                self._enter(state, item)
        self._state = state
        now = self._clock()
        members = {one.member.id for one in state.entries.values() if isinstance(one, MemberLease)}
        owners = {one.owner for one in state.entries.values() if isinstance(one, Ownership) and one.owner}
        for owner in owners - members:
            self._sightings.miss(owner, now)
        self._sightings.keep(owners | members)

    def _enter(self, state: _State, item: Json) -> bool:
        """Add an object to the state; returns False if only its version was changed."""
        name = name_of(item)
        before = state.entries.pop(name, None)
        try:
            entry = self._read(item)
        except ValueError as error:
            if name not in self._unreadable and len(self._unreadable) < MAX_OBJECTS:
                self._unreadable.add(name)
                log.warning("an object in Kubernetes cannot be read", object=name, reason=str(error))
            return before is not None
        if len(state.entries) >= MAX_OBJECTS:
            return before is not None
        state.entries[name] = entry
        if not isinstance(entry, MemberLease):
            return before != entry
        now = self._clock()
        was_over = self._sightings.is_over(entry.member.id, now)
        self._sightings.see(entry.member.id, entry.version, entry.duration, now)
        # A renewal by itself is no change.
        return was_over or not isinstance(before, MemberLease) or _told(before) != _told(entry)

    def _read(self, item: Json) -> _Entry:
        kind = kind_of(item)
        if kind == "member":
            return read_member_lease(item, self._lease)
        if kind == "rm":
            return read_rm_lease(item)
        if kind == SHARED_KIND:
            return read_document(item)
        raise ValueError(f"the label {KIND} is {kind!r}")

    def _snapshot(self) -> Snapshot:
        now = self._clock()
        entries = self._state.entries.values()
        members = [one for one in entries if isinstance(one, MemberLease) and not one.ended]
        return Snapshot(
            members={
                one.member.id: one.member
                for one in members
                if not self._sightings.is_over(one.member.id, now)
            },
            rms={one.rm_id: one for one in entries if isinstance(one, Ownership)},
            documents=dict(one for one in entries if isinstance(one, tuple)),
        )

    async def _follow(self, end: float, publish: Callable[[Snapshot], None]) -> None:
        """Publish changes until the next round is due."""
        loop = asyncio.get_running_loop()
        watches = [
            asyncio.create_task(self._watch(resource, end - loop.time()), name=f"watch of {resource.plural}")
            for resource in self._selectors
        ]
        # The API server ends each watch itself after the requested time, which leaves the connection
        # reusable. So wait longer than that.
        last = end + self._reread / 2
        try:
            while (left := last - loop.time()) > 0 and not all(watch.done() for watch in watches):
                if any(watch.done() and not watch.result() for watch in watches):
                    break
                wake = min(left, max(_LEAST_WAIT, self._sightings.next_end(self._clock())))
                with suppress(TimeoutError):
                    async with asyncio.timeout(wake):
                        await self._changed.wait()
                self._changed.clear()
                publish(self._snapshot())
        finally:
            for watch in watches:
                watch.cancel()
            await asyncio.gather(*watches, return_exceptions=True)

    async def _watch(self, resource: Resource, seconds: float) -> bool:
        """Process changes; returns False if the watch has ended prematurely."""
        version = self._state.versions[resource.plural]
        try:
            await self._api.watch(resource, self._selectors[resource], version, seconds, self._take)
        except StoreError as error:
            log.debug("a watch of Kubernetes has ended", resource=resource.full, reason=str(error))
            return False
        else:
            return True
        finally:
            self._changed.set()

    def _take(self, kind: str, item: Json) -> None:
        if kind in ("ADDED", "MODIFIED"):
            changed = self._enter(self._state, item)
        elif kind == "DELETED":
            changed = self._state.entries.pop(name_of(item), None) is not None
        else:
            # Bookmarks are ignored: the next round lists everything, and does not need their versions.
            changed = False
        if changed:
            self._changed.set()

    async def _remove_ended(self) -> None:
        """Remove some Leases of ended members that own no RM."""
        now = self._clock()
        entries = self._state.entries
        owners = {one.owner for one in entries.values() if isinstance(one, Ownership)}
        over = [
            (name, one.version)
            for name, one in entries.items()
            if isinstance(one, MemberLease)
            and one.member.id not in owners
            and self._sightings.is_over(one.member.id, now)
        ]
        for name, version in over[:_AT_ONCE]:
            try:
                await self._api.delete(LEASES, name, version)
            except Conflict:
                continue
            except StoreError as error:
                self._log_failure(error)
                return


def _told(lease: MemberLease) -> tuple[Member, bool]:
    """The part of a member's Lease that snapshots include."""
    return lease.member, lease.ended
