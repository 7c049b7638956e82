"""A member's process: the real Membership, and the parts of a server that it needs."""

import asyncio
from collections.abc import Coroutine, Mapping
from dataclasses import dataclass
from random import Random
from typing import TYPE_CHECKING, Any

from licorne_core.values.ids import RmId
from licorne_server.store.coordination.membership import Membership
from licorne_server.store.coordination.store import Member, MemberId
from licorne_server.wire.errors import CallError
from support.coordination.loops import DriftingClock, MemberLoop
from support.coordination.network import Network
from support.coordination.rms import Rm
from support.coordination.spending import Spending
from support.coordination.store import ModelStore

if TYPE_CHECKING:
    from support.coordination.world import World

DRAIN_SECONDS = 2.0
"""The maximum of time for the last messages of an RM."""


@dataclass(slots=True, eq=False)
class Book:
    """An RM that is served by a process."""

    rm: Rm
    epoch: int
    stream: int
    is_held: bool = False
    """True if the process decides nothing more for the RM, but may still send earlier decisions."""
    has_replayed: bool = False
    charged: int = 0
    """The usage of the budget by the RM, including decisions in flight."""
    slice: int = 0
    """The amount that the RM may use."""


class Process:
    """One run of the server of a member."""

    def __init__(self, world: "World", address: str, clock: DriftingClock, spoken: tuple[int, ...]) -> None:
        """Start. `spoken` are the supported versions of the protocol between members."""
        self.world = world
        self.address = address
        self.clock = clock
        # The loop has the methods that members use, but no sockets and threads.
        self.loop = MemberLoop(world.time, clock)  # type: ignore[abstract]
        self.network = Network(world.time, world.randomness, world.weather, world.store, self.loop)
        me = Member(id=MemberId(""), name=address, address=address, protocols=spoken, started=world.time.now)
        store = ModelStore(world.store, self.network, self.loop)
        randomness = Random(world.randomness.getrandbits(32))
        self.member = Membership(store, me, clock, randomness, self._load)
        self.member.on_lost = self.member.on_handover = self._lost
        self.books: dict[RmId, Book] = {}
        self.is_dead = False
        self.is_balancing = False
        """True while an RM is drained for balance."""
        self._tasks: set[asyncio.Task[None]] = set()
        self.loop.post(lambda: self._keep(self.member.start(address, "")))
        self.loop.post(lambda: self._keep(Spending(self).run()))

    @property
    def run(self) -> MemberId:
        """The id of this run of the member."""
        return self.member.me()

    def hello(self, rm: Rm, stream: int, named: int) -> None:
        """Serve an RM that has opened a stream."""
        if not self.is_dead:
            self.loop.post(lambda: self._keep(self._hello(rm, stream, named)))

    def goodbye(self, rm: Rm) -> None:
        """Forget an RM that has unregistered."""
        if not self.is_dead:
            self.loop.post(lambda: self._keep(self._forget(rm)))

    def replayed(self, rm: Rm, stream: int, epoch: int, used: int) -> None:
        """Charge an RM for its replayed allocations."""
        book = self.books.get(rm.id)
        if book is not None and (book.stream, book.epoch) == (stream, epoch) and not book.has_replayed:
            book.has_replayed = True
            book.charged = used

    def freed(self, rm: Rm, stream: int, epoch: int, amount: int) -> None:
        """Lower the charge of an RM that has ended work."""
        book = self.books.get(rm.id)
        if book is not None and (book.stream, book.epoch) == (stream, epoch) and book.has_replayed:
            book.charged -= amount

    def decide(self) -> None:
        """Make a decision for each RM, if allowed; the process may be paused before sending it."""
        for book in list(self.books.values()):
            if book.is_held or not self.member.may_decide():
                continue
            self.world.check_decision(self, book.rm)
            amount = 0
            if book.has_replayed:
                amount = max(0, min(book.rm.wanted, book.slice - book.charged))
                book.charged += amount
            self.loop.call_soon(self._send, book, self.run, amount)
            if self.world.is_unlucky():
                self.world.pause(self)

    def stop(self) -> None:
        """Stop as on SIGTERM."""
        self.loop.post(lambda: self._keep(self._stop()))

    def kill(self) -> None:
        """End at once."""
        self.is_dead = True
        self.books.clear()
        self.loop.pause()

    def _keep(self, work: Coroutine[Any, Any, None]) -> None:
        task = self.loop.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _hello(self, rm: Rm, stream: int, named: int) -> None:
        try:
            answer = await self.member.take(rm.id, named)
        except CallError:
            self.network.to_rm(rm.refused, stream)
            return
        if isinstance(answer, Member):
            self.network.to_rm(rm.redirected, stream, answer.address)
            return
        book = self.books.get(rm.id)
        if book is None or book.epoch < answer:
            self.books[rm.id] = Book(rm, answer, stream)
        elif book.stream < stream:
            self.books[rm.id] = Book(rm, answer, stream, charged=book.charged, slice=book.slice)
        self.world.note_grant(self, rm, answer)
        self.network.to_rm(rm.welcomed, stream, self, answer)

    def _send(self, book: Book, run: MemberId, amount: int) -> None:
        if self.books.get(book.rm.id) is book:
            self.network.to_rm(book.rm.affected, book.stream, self, run, book.epoch, amount)

    async def _lost(self, rm_id: RmId, reason: str) -> None:
        book = self.books.get(rm_id)
        if book is None:
            return
        book.is_held = True
        is_for_balance = reason.startswith("its place")
        if is_for_balance:
            self.world.check_move(self, book.rm)
        self.is_balancing = is_for_balance
        # The RM may learn of the cut before all decided effects are sent.
        self.network.to_rm(book.rm.cut, book.stream)
        await asyncio.sleep(self.world.randomness.choice((0.0, 0.1, DRAIN_SECONDS)))
        self.is_balancing = False
        if self.books.get(rm_id) is book:
            del self.books[rm_id]

    async def _forget(self, rm: Rm) -> None:
        if self.books.pop(rm.id, None) is not None:
            self.member.forget(rm.id)

    async def _stop(self) -> None:
        await self.member.stop()
        self.kill()

    def _load(self) -> Mapping[RmId, float]:
        return {rm_id: book.rm.load for rm_id, book in self.books.items()}
