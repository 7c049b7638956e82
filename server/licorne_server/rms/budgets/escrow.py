"""The escrow of budgets between members, over compare-and-set of one document for each budget.

A slice belongs to an RM, and moves with the RM to its new owner. Only the owner changes it, in an order that
keeps the usage in all cores within the documents, and so within the limit, whenever a member dies:

* Growth: first the document, then the core. The core gets no more than this owner has written itself: a write
  of unknown outcome may still succeed, and grants nothing until a later write succeeds.
* Shrinking: first the core, then the document, which is never below slice and use of the core.
* Takeover: the holding of the former owner counts until the RM has replayed, and the new owner has written
  its epoch into the document. Before that the core has no slice. A former owner that resumes finds a higher
  epoch, and does not change the holding.

Only the documents are stored. The caller gives the time, so that a simulation can run this.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace

import structlog

from licorne_core.values.ids import RmId
from licorne_core.values.resources import EMPTY, Resources
from licorne_server.rms.budgets.slices import Escrowed, Holding, Use, decode, encode, settled
from licorne_server.store.coordination.store import Snapshot, Store
from licorne_server.store.documents.documents import SHARED, Conflict, Document, StoreError
from licorne_server.store.documents.encoding import Unreadable

log = structlog.get_logger("core.coordination.escrow")

BUDGETS = f"{SHARED}budgets/"
"""Prefix of the keys of budgets; the name of the budget follows."""

TRIES = 4
"""Maximum number of attempts at one change of a document; the next round tries again."""

WINDOW = 2.0
"""Minimum number of seconds for which a use or a grant counts as recent; the maximum is twice that."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Terms:
    """A budget of the definition."""

    limit: Resources
    scope: str
    """Digest of the patterns of the budget's scope, and of the names of its resources."""


class Books(ABC):
    """The interface between the escrow and the core: the use of budgets, and their slices.

    An RM that is served under a new epoch has no slices until `set_slices` sets some.
    """

    @abstractmethod
    def uses(self, budget: str) -> Mapping[RmId, Use] | None:
        """The current use of all RMs that use or request a part of a budget; `recent` is empty.

        None while the use is unknown.
        """

    @abstractmethod
    def slices(self, budget: str) -> Mapping[RmId, Resources]:
        """The slices that the core has now."""

    @abstractmethod
    async def set_slices(self, budget: str, slices: Mapping[RmId, Resources]) -> None:
        """Set the slices of some RMs, without changing those of others; they are in force on return."""


class NotReleased(Exception):
    """The slices of an RM cannot be released, because a member serves the RM."""


class _Recent:
    """The highest use in a recent period, of one to two times `WINDOW`."""

    def __init__(self, now: float) -> None:
        self._since = now
        self._before: Resources = EMPTY
        self._most: dict[str, int] = {}

    def most(self, used: Resources, now: float) -> dict[str, int]:
        """Record a use at `now`, in seconds; returns the highest use of the recent period."""
        if now - self._since >= WINDOW:
            self._before = self._most if now - self._since < 2 * WINDOW else EMPTY
            self._most = {}
            self._since = now
        self._most = _most(self._most, used)
        return _most(self._most, self._before)


def _most(one: Resources, other: Resources) -> dict[str, int]:
    return {name: max(one.get(name, 0), other.get(name, 0)) for name in one.keys() | other.keys()}


class Escrow:
    """One member's part of the escrow. Its rounds must not overlap."""

    def __init__(
        self,
        store: Store,
        member: str,
        books: Books,
        held: Callable[[], Mapping[RmId, int]],
    ) -> None:
        """`member` is unique to this run of the member. `held` returns the epochs of the RMs that are
        served here and whose replay has ended.
        """
        self._store = store
        self._member = member
        self._books = books
        self._held = held
        self._births = 0
        self._documents: dict[str, Document] = {}
        # The slices in this member's last write that is known to have succeeded, with the epoch.
        self._written: dict[tuple[str, RmId], tuple[int, Resources]] = {}
        # The recent use and the recent slices of each RM, by budget.
        self._recent: dict[tuple[str, RmId], tuple[_Recent, _Recent]] = {}
        # The time at which each period of settling was first seen here, in seconds.
        self._settling: dict[tuple[str, str], float] = {}

    async def round(self, terms: Mapping[str, Terms], revision: int, snapshot: Snapshot, now: float) -> None:
        """Bring all budgets up to date, with at most one write for each, unless another member writes too.

        `terms` are those of this revision of the definition. `now` is a monotonic time in seconds.
        """
        living = owned(snapshot)
        for name in terms:
            try:
                await self._follow(name, snapshot)
                await self._settle(name, terms[name], revision, living, now)
            except StoreError as error:
                log.debug("budget not settled", budget=name, reason=str(error))
            except Unreadable as error:
                log.error("document of a budget is damaged", budget=name, reason=str(error))
        for key, document in snapshot.documents.items():
            if key.startswith(BUDGETS) and key.removeprefix(BUDGETS) not in terms:
                await self._end(key, document, revision)
        self._forget_others(terms)

    async def release(self, rm_id: RmId, snapshot: Snapshot, epoch: int | None = None) -> int:
        """Remove all holdings of the RM; returns the number of budgets in which it had one.

        `epoch` is given by a former owner, which has dropped the RM.

        Raises:
            NotReleased: the RM has a living owner.
            StoreError: the store does not answer; some holdings may have been removed.
        """
        if epoch is None and rm_id in owned(snapshot):
            raise _served(rm_id)
        found = 0
        for key, document in sorted(snapshot.documents.items()):
            if key.startswith(BUDGETS):
                found += await self._release(key, rm_id, document, epoch)
        return found

    async def _release(self, key: str, rm_id: RmId, document: Document, epoch: int | None) -> bool:
        for _ in range(TRIES):
            budget = decode(document.value) if document.revision else None
            holding = None if budget is None else budget.holdings.get(rm_id)
            if budget is None or holding is None:
                return False
            # No member owned the RM in the snapshot; a new owner would have a higher epoch.
            epoch = holding.epoch if epoch is None else epoch
            if holding.epoch > epoch:
                raise _served(rm_id)
            try:
                await self._write(key, budget.without((rm_id,)), document)
            except Conflict:
                document = await self._store.read(key)
                continue
            return True
        raise StoreError(f"{key} was changed too often by others")

    async def _follow(self, name: str, snapshot: Snapshot) -> None:
        """Use the document in the snapshot.

        If it is older than this member's last write, or belongs to another store, it is read again.
        """
        key = f"{BUDGETS}{name}"
        seen = snapshot.documents.get(key, Document())
        if seen.revision < self._documents.get(key, Document()).revision:
            seen = await self._store.read(key)
        self._documents[key] = seen

    def _forget_others(self, terms: Collection[str]) -> None:
        """Drop the state of removed budgets, and of RMs that are not served here."""
        held = self._held()
        for name, rm_id in [one for one in self._recent if one[0] not in terms or one[1] not in held]:
            self._written.pop((name, rm_id), None)
            del self._recent[name, rm_id]
        for key in [key for key in self._documents if key.removeprefix(BUDGETS) not in terms]:
            del self._documents[key]

    async def _settle(
        self, name: str, terms: Terms, revision: int, living: Collection[RmId], now: float
    ) -> None:
        """Bring the document of one budget, and the core's slices of it, up to date.

        Raises:
            StoreError: the store does not answer.
            Unreadable: the document cannot be read.
        """
        key = f"{BUDGETS}{name}"
        for _ in range(TRIES):
            document = self._documents.get(key, Document())
            before = decode(document.value) if document.revision else None
            budget = self._agreed(name, before, terms, revision, now)
            plan = self._plan(name, budget, living, now)
            if plan is not None and await self._shrink(name, plan):
                plan = self._plan(name, budget, living, now, at_least=plan)
            if plan is None:
                return
            after = budget.having(plan)
            if after == before and all(self._is_written(name, rm_id, plan[rm_id]) for rm_id in plan):
                break
            try:
                await self._write(key, after, document)
            except Conflict:
                self._documents[key] = await self._store.read(key)
                continue
            except StoreError:
                # The write may still succeed later. So the core keeps the smaller slices of both documents,
                # and gets no larger slice before another write has succeeded.
                for rm_id in plan:
                    if (name, rm_id) in self._written:
                        self._written[name, rm_id] = (plan[rm_id].epoch, EMPTY)
                self._documents.pop(key, None)
                raise
            for rm_id, holding in plan.items():
                self._written[name, rm_id] = (holding.epoch, holding.slice)
            break
        else:
            return
        await self._grow(name, plan)

    def _agreed(
        self, name: str, before: Escrowed | None, terms: Terms, revision: int, now: float
    ) -> Escrowed:
        """The document with the limit of the latest definition; a new scope begins a period of settling."""
        budget = before or Escrowed(limit=terms.limit, revision=revision)
        if before is None or before.revision < revision:
            settling = budget.settling
            if before is None or before.scope != terms.scope:
                self._births += 1
                settling = f"{self._member} {self._births}"
            budget = replace(
                budget, limit=terms.limit, revision=revision, scope=terms.scope, settling=settling
            )
        if budget.settling:
            since = self._settling.setdefault((name, budget.settling), now)
            if now - since >= self._store.lease:
                # After the length of a lease, every member has charged its RMs' usage, or has lost its lease.
                budget = replace(budget, settling="")
        else:
            for known in [one for one in self._settling if one[0] == name]:
                del self._settling[known]
        return budget

    def _plan(
        self,
        name: str,
        budget: Escrowed,
        living: Collection[RmId],
        now: float,
        at_least: Mapping[RmId, Holding] | None = None,
    ) -> dict[RmId, Holding] | None:
        """The holdings that the RMs of this member should have now; None while their use is unknown.

        `at_least` is a plan to which the core has shrunk already: then no slice grows, and no slice is below
        that plan, nor below the current use unless that plan is.
        """
        uses, held = self._books.uses(name), self._held()
        if uses is None:
            return None
        plan: dict[RmId, Holding] = {}
        for rm_id in sorted(held):
            own, use = budget.holdings.get(rm_id), uses.get(rm_id, Use())
            if own is None and not (use.used or use.needed):
                continue
            if own is not None and own.epoch > held[rm_id]:
                continue  # another member owns the RM by now
            if at_least is not None and rm_id in at_least:
                before = EMPTY if own is None else own.slice
                plan[rm_id] = _at_least(at_least[rm_id], before, use)
            elif at_least is None:
                recent, granted = self._recent.setdefault((name, rm_id), (_Recent(now), _Recent(now)))
                if own is not None and own.epoch < held[rm_id]:
                    recent.most(own.slice, now)  # the core may still report running allocations
                use = replace(use, recent=recent.most(use.used, now), granted=granted.most(EMPTY, now))
                holding = settled(budget, rm_id, held[rm_id], use, living)
                before = EMPTY if own is None else own.slice
                more = {r: size for r, size in holding.slice.items() if size > before.get(r, 0)}
                if more:
                    recent.most(holding.slice, now)
                    granted.most(more, now)
                plan[rm_id] = holding
                budget = budget.having(plan)
        return plan

    async def _shrink(self, name: str, plan: Mapping[RmId, Holding]) -> bool:
        """Shrink the core's slices to the plan; returns True if any slice was larger."""
        has = self._books.slices(name)
        less = {
            rm_id: {r: min(size, holding.slice.get(r, 0)) for r, size in has[rm_id].items()}
            for rm_id, holding in plan.items()
            if any(size > holding.slice.get(r, 0) for r, size in has.get(rm_id, EMPTY).items())
        }
        if less:
            await self._books.set_slices(name, less)
        return bool(less)

    async def _grow(self, name: str, plan: Mapping[RmId, Holding]) -> None:
        """Apply the written slices in the core, for RMs that are still served under the same epoch."""
        held, has = self._held(), self._books.slices(name)
        more = {
            rm_id: holding.slice
            for rm_id, holding in plan.items()
            if held.get(rm_id) == holding.epoch and has.get(rm_id) != holding.slice
        }
        if more:
            await self._books.set_slices(name, more)

    def _is_written(self, name: str, rm_id: RmId, holding: Holding) -> bool:
        return self._written.get((name, rm_id)) == (holding.epoch, holding.slice)

    async def _write(self, key: str, budget: Escrowed, before: Document) -> None:
        """Replace the document.

        Raises:
            Conflict: another member has replaced it.
            StoreError: the store does not answer.
        """
        content = encode(replace(budget, serial=budget.serial + 1))
        revision = await self._store.compare_and_set(key, content, before.revision)
        self._documents[key] = Document(value=content, revision=revision)

    async def _end(self, key: str, document: Document, revision: int) -> None:
        """Remove the holdings of this member's RMs in a removed budget, and then its document."""
        try:
            budget = decode(document.value)
            left = budget.without(self._held().keys())
            if budget.revision >= revision:
                return  # this member has an older definition
            if not left.holdings:
                await self._store.compare_and_set(key, None, document.revision)
            elif left != budget:
                await self._write(key, left, document)
        except (StoreError, Unreadable) as error:
            log.debug("budget not removed", budget=key, reason=str(error))


def _at_least(planned: Holding, before: Resources, use: Use) -> Holding:
    """The plan to which the core has shrunk, raised to the amounts that were charged meanwhile."""
    size = {
        name: amount if name in planned.overdraft else max(amount, min(used, before.get(name, 0)))
        for name, amount in planned.slice.items()
        for used in (use.used.get(name, 0),)
    }
    over = {name: use.used.get(name, 0) - amount for name, amount in size.items()}
    return replace(
        planned, slice=size, overdraft={name: amount for name, amount in over.items() if amount > 0}
    )


def _served(rm_id: RmId) -> NotReleased:
    return NotReleased(f"RM {rm_id} is served, so that it needs its slices")


def owned(snapshot: Snapshot) -> frozenset[RmId]:
    """The RMs whose owner has a valid lease."""
    return frozenset(rm_id for rm_id, record in snapshot.rms.items() if record.owner in snapshot.members)
