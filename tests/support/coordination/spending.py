"""One budget that the RMs of a world share, and the part of a core that its escrow needs."""

import asyncio
from collections.abc import Mapping
from typing import TYPE_CHECKING

from licorne_core.values.ids import RmId
from licorne_core.values.resources import Resources
from licorne_server.rms.budgets.escrow import BUDGETS, Books, Escrow, Terms
from licorne_server.rms.budgets.slices import Use, decode
from licorne_server.store.documents.documents import Document
from support.coordination.rms import Rm

if TYPE_CHECKING:
    from support.coordination.process import Process
    from support.coordination.world import World

BUDGET = "company"
KEY = f"{BUDGETS}{BUDGET}"
LICENCE = "licence"
ROUND = 1.0
"""Seconds between two rounds of a member."""


class Budget:
    """The true usage: that of all RMs must be within the limit, whatever members believe."""

    def __init__(self, world: "World", limit: int) -> None:
        """A limit of 0 stands for no budget."""
        self._world = world
        self.limit = limit

    @property
    def terms(self) -> dict[str, Terms]:
        """Its definition, which is constant."""
        return {BUDGET: Terms(limit={LICENCE: self.limit}, scope="all")}

    def accepted(self, rm: Rm, amount: int, process: "Process") -> None:
        """Count the work that an RM has started by decision of a member."""
        rm.used += amount
        rm.wanted = max(0, rm.wanted - amount)
        if self._world.is_condemned(process):
            # The store has lost the charges of this process, which still spends them.
            rm.uncharged += amount
        total = sum(each.used - each.uncharged for each in self._world.rms)
        if total > self.limit:
            self._world.fail(f"{total} of {self.limit} are used with the last {amount} of {rm.id}")

    def written(self, document: Document) -> None:
        """Take note of the written charges, which members use from now on.

        Usage that was not charged when a period of settling ended, or in an older copy of the store, is an
        overdraft once its RM has replayed.
        """
        budget = decode(document.value)
        if budget.settling:
            return
        for rm in self._world.rms:
            held = budget.holdings.get(rm.id)
            charged = 0
            if held is not None:
                charged = held.slice.get(LICENCE, 0) + held.overdraft.get(LICENCE, 0)
            rm.uncharged = max(rm.uncharged, rm.used - charged)


class Spending(Books):
    """The core of a process, as seen by its escrow."""

    def __init__(self, process: "Process") -> None:
        """Create it; `run` begins its rounds."""
        self._process = process
        self._world = process.world

    async def run(self) -> None:
        """Run rounds for ever; end at once without a budget."""
        process, member = self._process, self._process.member
        name = f"{process.address} {self._world.time.now}"
        escrow = Escrow(member.store, name, self, self._held)
        while True:
            await asyncio.sleep(ROUND)
            if not self._world.budget.limit:
                return
            if member.may_decide():
                now = process.clock.elapsed()
                await escrow.round(self._world.budget.terms, 1, member.snapshot(), now)

    def uses(self, budget: str) -> Mapping[RmId, Use]:
        """The usage and the wanted amounts of RMs."""
        found = {}
        for rm_id, book in self._process.books.items():
            most = max(book.charged, book.slice)
            wanted = max(0, book.charged + book.rm.wanted - most)
            if book.charged or wanted:
                needed = {LICENCE: most + wanted} if wanted else {}
                found[rm_id] = Use(used={LICENCE: book.charged}, needed=needed)
        return found

    def slices(self, budget: str) -> Mapping[RmId, Resources]:
        """The slices of the books."""
        return {rm_id: {LICENCE: book.slice} for rm_id, book in self._process.books.items() if book.slice}

    async def set_slices(self, budget: str, slices: Mapping[RmId, Resources]) -> None:
        """Set slices at once, and return a step of the loop later."""
        for rm_id, size in slices.items():
            if rm_id in self._process.books:
                self._process.books[rm_id].slice = size[LICENCE]
        await asyncio.sleep(0.0)

    def _held(self) -> dict[RmId, int]:
        """RMs that are served and have replayed, with their epochs."""
        return {
            rm_id: book.epoch
            for rm_id, book in self._process.books.items()
            if book.has_replayed and book.epoch == self._process.member.epoch(rm_id)
        }
