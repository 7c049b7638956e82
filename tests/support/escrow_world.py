"""Members, RMs and a store that share one budget, stepped in an order drawn from a seed."""

import random
import types
from collections.abc import Coroutine, Generator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from licorne_core.values.ids import RmId
from licorne_core.values.resources import Resources
from licorne_server.rms.budgets.escrow import BUDGETS, Books, Escrow, NotReleased, Terms
from licorne_server.rms.budgets.slices import Escrowed, Use, decode
from licorne_server.store.coordination.store import Member, MemberId, Ownership, Snapshot
from licorne_server.store.documents.documents import Conflict, Document, StoreError

BUDGET = "company"
KEY = f"{BUDGETS}{BUDGET}"
LICENCE = "licence"
LEASE = 3.0


@types.coroutine
def pause(rng: random.Random) -> Generator[None, None, None]:
    """Let the world do something else before the caller continues, sometimes several steps."""
    for _ in range(rng.choice((1, 1, 1, 2, 20))):
        yield


class SharedStore:
    """Documents under compare-and-set, like `Store`, with lost answers and late writes."""

    lease = LEASE

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.compares = True
        self.documents: dict[str, Document] = {}
        self.revision = 0
        self.faults = 0.0
        self.late: list[tuple[str, bytes | None, int]] = []
        self.writes = 0

    async def read(self, key: str) -> Document:
        await pause(self.rng)
        self._fail()
        found = self.documents.get(key, Document())
        await pause(self.rng)
        return found

    async def compare_and_set(self, key: str, value: bytes | None, revision: int) -> int:
        await pause(self.rng)
        fate = self.rng.random()
        if fate < self.faults / 2:
            self.late.append((key, value, revision))
        if fate < self.faults:
            raise StoreError("no answer")
        written = self.write(key, value, revision)
        await pause(self.rng)
        if self.rng.random() < self.faults / 4:
            raise StoreError("the answer was lost")
        return written

    def write(self, key: str, value: bytes | None, revision: int) -> int:
        if self.compares and self.documents.get(key, Document()).revision != revision:
            raise Conflict(key)
        self.revision += 1
        self.writes += 1
        if value is None:
            self.documents.pop(key, None)
        else:
            self.documents[key] = Document(value=value, revision=self.revision)
        return self.revision

    def land(self) -> None:
        """Carry out one of the writes whose caller has given up."""
        if self.late:
            key, value, revision = self.late.pop(self.rng.randrange(len(self.late)))
            with suppress(Conflict):
                self.write(key, value, revision)

    def _fail(self) -> None:
        if self.rng.random() < self.faults:
            raise StoreError("no answer")


@dataclass
class Rm:
    """An RM: its true allocations, and the epoch of the owner whose decisions it accepts."""

    epoch: int = 0
    owner: "Owner | None" = None
    used: int = 0
    wanted: int = 0
    extra: int = 0
    """The amount that the RM has started by itself, which becomes an overdraft in a replay."""


class Owner(Books):
    """One run of a member: the numbers of its RMs in the core, and its part of the escrow."""

    def __init__(self, world: "World", name: str) -> None:
        self.world = world
        self.name = MemberId(name)
        self.alive = True
        self.held_epochs: dict[RmId, int] = {}
        self.replaying: dict[RmId, int] = {}
        self.charged: dict[RmId, int] = {}
        self.core: dict[RmId, Resources] = {}
        self.escrow = Escrow(world.store, name, self, lambda: self.held_epochs)  # type: ignore[arg-type]
        self.work: Coroutine[Any, Any, Any] | None = None

    def uses(self, budget: str) -> Mapping[RmId, Use]:
        found = {}
        for rm_id in self.held_epochs:
            used, wanted = self.charged[rm_id], self.world.rms[rm_id].wanted
            wanted -= min(wanted, max(0, self.core.get(rm_id, {}).get(LICENCE, 0) - used))
            slice_ = max(used, self.core.get(rm_id, {}).get(LICENCE, 0))
            if used or wanted:
                found[rm_id] = Use(used={LICENCE: used}, needed={LICENCE: slice_ + wanted} if wanted else {})
        return found

    def slices(self, budget: str) -> Mapping[RmId, Resources]:
        return self.core

    async def set_slices(self, budget: str, slices: Mapping[RmId, Resources]) -> None:
        self.core.update(slices)  # Commands are carried out in the order in which they are given.
        await pause(self.world.rng)

    def step(self) -> bool:
        """Run one step of the present round; return True at the end of the round."""
        if self.work is None:
            world = self.world
            self.work = self.escrow.round(world.terms, world.revision, world.snapshot(), world.now)
        try:
            self.work.send(None)
        except StopIteration:
            self.work = None
            return True
        return False


@dataclass
class World:
    """Members, RMs and a store, with events from `rng`; invariants are checked after each step."""

    rng: random.Random
    limit: int = 20
    lowered_from: int = 0
    revision: int = 1
    now: float = 0.0
    rms: dict[RmId, Rm] = field(default_factory=dict)
    owners: list[Owner] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.store = SharedStore(self.rng)
        self.rms = {RmId(f"rm{number}"): Rm() for number in range(4)}
        self.owners = [Owner(self, f"m{number}") for number in range(3)]
        self.seen: dict[str, Document] = {}
        self.removed = False

    @property
    def terms(self) -> dict[str, Terms]:
        return {} if self.removed else {BUDGET: Terms(limit={LICENCE: self.limit}, scope="all")}

    def snapshot(self) -> Snapshot:
        """The present members and owners, and documents that may be stale."""
        if self.rng.random() < 0.7:
            self.seen = dict(self.store.documents)
        living = [owner for owner in self.owners if owner.alive]
        return Snapshot(
            members={owner.name: Member(id=owner.name, name="", address="") for owner in living},
            rms={
                rm_id: Ownership(rm_id=rm_id, owner=rm.owner.name, epoch=rm.epoch)
                for rm_id, rm in self.rms.items()
                if rm.owner is not None
            },
            documents=self.seen,
        )

    def document(self) -> Escrowed:
        return decode(self.store.documents[KEY].value)

    def take(self, rm_id: RmId, owner: Owner) -> None:
        """Move the RM to an owner, and replay. The previous owner is not notified, since it may be paused."""
        rm = self.rms[rm_id]
        rm.epoch += 1
        rm.owner = owner
        owner.held_epochs.pop(rm_id, None)
        owner.core.pop(rm_id, None)
        owner.replaying[rm_id] = rm.epoch
        owner.charged[rm_id] = rm.used

    def replayed(self, owner: Owner) -> None:
        """End the replays of an owner."""
        for rm_id, epoch in owner.replaying.items():
            if self.rms[rm_id].owner is owner and self.rms[rm_id].epoch == epoch:
                owner.charged[rm_id] = self.rms[rm_id].used
                owner.held_epochs[rm_id] = epoch
        owner.replaying.clear()

    def allocate(self, owner: Owner, rm_id: RmId, amount: int) -> None:
        """Allocate a slice at the owner; the RM accepts allocations of its present owner only."""
        rm = self.rms[rm_id]
        amount = min(amount, rm.wanted, owner.core.get(rm_id, {}).get(LICENCE, 0) - owner.charged[rm_id])
        if amount <= 0:
            return
        owner.charged[rm_id] += amount
        if rm.owner is owner and rm.epoch == owner.held_epochs.get(rm_id):
            rm.used += amount
            rm.wanted -= amount
            self.check()

    def free(self, rm_id: RmId, amount: int) -> None:
        """End some of the RM's allocations, and report that to its owner."""
        rm = self.rms[rm_id]
        amount = min(amount, rm.used)
        rm.used -= amount
        rm.extra = min(rm.extra, rm.used)
        if rm.owner is not None and rm.owner.held_epochs.get(rm_id) == rm.epoch:
            rm.owner.charged[rm_id] = rm.used

    def check(self) -> None:
        """Check that usage is within the budget, except for allocations that RMs start by themselves."""
        total = sum(rm.used - rm.extra for rm in self.rms.values())
        assert total <= max(self.limit, self.lowered_from), f"{total} of {self.limit}: {self.rms}"

    def check_cores(self) -> None:
        """Check that no core has a larger slice than the document, whatever is in progress."""
        if KEY not in self.store.documents:
            return
        for rm_id, held in self.document().holdings.items():
            rm = self.rms[rm_id]
            if rm.owner is not None and rm.owner.held_epochs.get(rm_id) == held.epoch == rm.epoch:
                has = rm.owner.core.get(rm_id, {}).get(LICENCE, 0)
                assert has <= held.slice[LICENCE], f"{rm_id} has {has}: {held}"

    def step(self) -> None:
        """Make one random event happen."""
        rng = self.rng
        rm_id = rng.choice(sorted(self.rms))
        rm, owner = self.rms[rm_id], rng.choice(self.owners)
        match rng.choices(range(9), weights=(90, 60, 12, 12, 2, 1, 8, 6, 4))[0]:
            case 0 if owner.alive:
                for _ in range(rng.randint(1, 4)):
                    owner.step()
            case 1 if owner.held_epochs:
                self.allocate(owner, rng.choice(sorted(owner.held_epochs)), rng.randint(1, 4))
            case 2:
                self.free(rm_id, rng.randint(1, 4))
            case 3:
                rm.wanted = rng.choice((0, 1, 3, 8, 30))
            case 4 if owner.alive:
                self.take(rm_id, owner)
            case 5:  # Killed; the next run of the member knows nothing.
                number = self.owners.index(owner)
                owner.alive = False
                self.owners[number] = Owner(self, f"{owner.name}'")
            case 6:
                self.replayed(owner)
            case 7:
                self.now += rng.choice((0.1, 1.0, 2.5))
            case 8:
                self.store.land()
                if rng.random() < 0.05 and rm.owner is not None and rm_id not in rm.owner.held_epochs:
                    rm.used += 3
                    rm.extra += 3

    def calm(self) -> None:
        """End all faults: each RM has a living owner, and all members run rounds."""
        self.store.faults = 0.0
        while self.store.late:
            self.store.land()
        for rm_id, rm in self.rms.items():
            if rm.owner not in self.owners:
                self.take(rm_id, self.owners[0])
        for owner in self.owners:
            for rm_id in [one for one in owner.held_epochs if self.rms[one].owner is not owner]:
                del owner.held_epochs[rm_id]
            self.replayed(owner)

    def restart(self, number: int) -> None:
        """Replace a member's run by a new one, which serves and replays its RMs at once."""
        before = self.owners[number]
        before.alive = False
        self.owners[number] = owner = Owner(self, f"{before.name}'")
        for rm_id, rm in self.rms.items():
            if rm.owner is before:
                self.take(rm_id, owner)
        self.replayed(owner)

    def rounds(self, count: int) -> None:
        """Run complete rounds of all members in turn, with allocations between them."""
        for _ in range(count):
            self.now += 0.25
            for owner in self.owners:
                while not owner.step():
                    pass
                for rm_id in owner.held_epochs:
                    self.allocate(owner, rm_id, 100)

    def release(self, rm_id: RmId) -> int:
        """Release an RM at the first member, like an operator; return the result."""
        work = self.owners[0].escrow.release(rm_id, self.snapshot())
        while True:
            try:
                work.send(None)
            except StopIteration as end:
                return int(end.value)


__all__ = ["BUDGET", "KEY", "LICENCE", "NotReleased", "Rm", "World"]
