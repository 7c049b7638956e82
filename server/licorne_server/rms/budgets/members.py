"""Budgets of a server: the rounds of the escrow over its core, and their state for readers."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from uuid import uuid4

import structlog

from licorne_core.extensions.budgets.messages import BudgetPattern, BudgetReport, BudgetUse, SetBudgetSlices
from licorne_core.extensions.budgets.reports import budget_report, budget_reports
from licorne_core.values.errors import NotFound
from licorne_core.values.ids import RmId
from licorne_core.values.resources import EMPTY, Resources, subtract, sum_of
from licorne_core.views import Views
from licorne_server.engine.engine import Engine
from licorne_server.process.clock import Clock, Periodic
from licorne_server.rms.budgets.definitions import KEY, Budgets, definition_in, scope_of
from licorne_server.rms.budgets.escrow import BUDGETS, Books, Escrow, NotReleased, Terms
from licorne_server.rms.budgets.slices import Escrowed, Holding, Use, decode
from licorne_server.rms.registry import Rms, is_owned
from licorne_server.store.configurations.thread import ConfigThread
from licorne_server.store.coordination.ownership import Ownership
from licorne_server.store.coordination.store import Snapshot
from licorne_server.store.documents.documents import Document, Documents
from licorne_server.store.documents.encoding import Unreadable
from licorne_server.wire.errors import Defect, Stopped

log = structlog.get_logger("core.coordination.budgets")

PAUSE = 0.25
"""Seconds between two rounds."""


class EngineBooks(Books):
    """The `Books` of the core behind its engine."""

    def __init__(self, engine: Engine, views: Views, is_known: Callable[[str], bool]) -> None:
        """Start without slices: an RM without one may allocate nothing.

        `is_known` is True for a budget in the definition that the core has.
        """
        self._engine = engine
        self._views = views
        self._is_known = is_known
        # The slices of the core once it has handled all queued commands.
        self._slices: dict[str, dict[RmId, Resources]] = {}

    def uses(self, budget: str) -> Mapping[RmId, Use] | None:
        """See `Books`. None while the core recounts the members of budgets."""
        try:
            report = budget_report(self._views, budget)
        except NotFound:
            return None
        if report.counting:
            return None
        has = self.slices(budget)
        return {rm_id: _use(use, has.get(rm_id, EMPTY)) for rm_id, use in report.rms.items()}

    def slices(self, budget: str) -> Mapping[RmId, Resources]:
        """See `Books`."""
        return self._slices.get(budget, EMPTY_SLICES)

    async def set_slices(self, budget: str, slices: Mapping[RmId, Resources]) -> None:
        """See `Books`."""
        command = self._changed(budget, slices)
        with suppress(Stopped, Defect):
            await self._engine.submit(command, is_current=lambda: self._is_known(budget))

    def forget(self, rm_id: RmId) -> None:
        """Remove all slices of an RM from the core, before all later commands."""
        for budget, slices in self._slices.items():
            if slices.pop(rm_id, None) is not None:
                command = SetBudgetSlices(budget=budget, slices=dict(slices))
                self._engine.post(command, is_current=partial(self._is_known, budget))

    def keep(self, budgets: Iterable[str]) -> None:
        """Drop the slices of all budgets except these."""
        known = set(budgets)
        self._slices = {name: slices for name, slices in self._slices.items() if name in known}

    def _changed(self, budget: str, slices: Mapping[RmId, Resources]) -> SetBudgetSlices:
        own = self._slices.setdefault(budget, {})
        for rm_id, size in slices.items():
            own.pop(rm_id, None)
            if size:
                own[rm_id] = size
        return SetBudgetSlices(budget=budget, slices=dict(own))


EMPTY_SLICES: Mapping[RmId, Resources] = {}


def _use(use: BudgetUse, has: Resources) -> Use:
    if not any(use.wanted.values()):
        return Use(used=use.used)
    base = {name: max(use.used.get(name, 0), has.get(name, 0)) for name in use.wanted}
    return Use(used=use.used, needed=sum_of((base, use.wanted)))


@dataclass(frozen=True, slots=True, kw_only=True)
class HoldingState:
    """The holding of one RM in a budget; `used` is known only at the member that serves the RM (`here`)."""

    rm_id: RmId
    here: bool
    used: Resources
    slice: Resources
    wanted: Resources
    overdraft: Resources


@dataclass(frozen=True, slots=True, kw_only=True)
class BudgetState:
    """A budget for readers; see the message `Budget`."""

    name: str
    limit: Resources
    members: tuple[BudgetPattern, ...]
    used: Resources
    unassigned: Resources
    sliced: bool
    counting: bool
    holdings: tuple[HoldingState, ...]


class MemberBudgets(Periodic):
    """The budgets of this server: their definition, and their escrow if there are other members."""

    definition: Budgets

    def __init__(
        self,
        engine: Engine,
        rms: Rms,
        views: Views,
        documents: Documents,
        thread: ConfigThread,
        clock: Clock,
        file: Path | None,
        ownership: Ownership,
    ) -> None:
        """On a server without other members, budgets are enforced exactly."""
        super().__init__("budgets", clock, PAUSE)
        self._views = views
        self._rms = rms
        self._ownership = ownership
        # Epochs of the registered RMs.
        self._epochs: dict[RmId, int] = {}
        # Revision of the stored document whose definition is in force.
        self._followed = 0
        self._books = EngineBooks(engine, views, self._has)
        store = ownership.store
        self._escrow = None if store is None else Escrow(store, uuid4().hex, self._books, self._held)
        self.definition = Budgets(engine, documents, thread, clock, file, self._slices)

    async def begin(self, *, watch: bool) -> None:
        """Put the budgets into force, and begin to follow their changes.

        Raises:
            SettingsError: the budgets cannot be used.
        """
        await self.definition.start()
        if watch:
            self.definition.watch()
        if self._escrow is not None:
            self.start()

    async def stop(self) -> None:
        """Stop following changes, and end the rounds."""
        await self.definition.stop()
        await super().stop()

    def registered(self, rm_id: RmId) -> None:
        """Record a registration of the RM: under a new epoch its slices have to be set again."""
        rm = self._rms.find(rm_id)
        if rm is not None and self._epochs.get(rm_id) != rm.epoch:
            self._epochs[rm_id] = rm.epoch
            self._books.forget(rm_id)

    def forget(self, rm_id: RmId) -> None:
        """Record that the core has removed the RM together with its slices."""
        self._epochs.pop(rm_id, None)
        self._books.forget(rm_id)

    async def release(self, rm_id: RmId, epoch: int | None = None) -> int:
        """Remove the RM's holdings; returns the number of budgets in which it had one.

        `epoch` is given if the RM was served here under it, and the core has removed the RM.

        Raises:
            NotReleased: the RM is served.
            StoreError: the store does not answer.
        """
        if self._escrow is not None:
            return await self._escrow.release(rm_id, self._ownership.snapshot(), epoch)
        if self._rms.find(rm_id) is not None:
            raise NotReleased(f"RM {rm_id} is registered here, and what it uses counts")
        return 0

    def states(self) -> Iterator[BudgetState]:
        """All budgets, parents before children."""
        documents = self._ownership.snapshot().documents
        for report in budget_reports(self._views):
            yield _state(report, _escrowed(documents.get(f"{BUDGETS}{report.name}")))

    def _has(self, budget: str) -> bool:
        return self.definition.has(budget)

    def _slices(self, budget: str) -> Mapping[RmId, Resources] | None:
        return None if self._escrow is None else dict(self._books.slices(budget))

    def _held(self) -> dict[RmId, int]:
        """Epochs of the RMs that are served here and have replayed."""
        return {
            rm.rm_id: rm.epoch
            for rm in self._rms.all()
            if is_owned(self._rms, rm) and not rm.session.awaits_replay
        }

    async def _work(self) -> float:
        """Run one round of the escrow; returns the time of the next one, in unix seconds."""
        try:
            if self._escrow is not None and self._ownership.may_decide():
                await self._round(self._escrow, self._ownership.snapshot())
        except Exception:
            log.exception("round of budgets failed")
        return self._clock.now() + PAUSE

    async def _round(self, escrow: Escrow, snapshot: Snapshot) -> None:
        definition = self.definition
        document = snapshot.documents.get(KEY)
        if document is not None and document.revision != self._followed:
            with suppress(ValueError):
                await definition.follow(definition_in(document))
            self._followed = document.revision
        elif document is None:
            await definition.store_again()
        tree, revision = definition.tree, definition.definition.revision
        self._books.keep(budget.name for budget in tree.budgets)
        terms = {
            budget.name: Terms(limit=budget.limit, scope=scope_of(tree, budget.name))
            for budget in tree.budgets
        }
        await escrow.round(terms, revision, snapshot, self._clock.now())


def _escrowed(document: Document | None) -> Escrowed | None:
    if document is None:
        return None
    try:
        return decode(document.value)
    except Unreadable:
        return None


NOTHING = Holding(epoch=0)


def _limited(used: Resources, report: BudgetReport) -> Resources:
    return {name: value for name, value in used.items() if name in report.limit}


def _state(report: BudgetReport, escrowed: Escrowed | None) -> BudgetState:
    sliced = report.slices is not None
    elsewhere = {} if escrowed is None else escrowed.holdings
    holdings = []
    for rm_id in sorted({*report.rms, *elsewhere}):
        use, has = report.rms.get(rm_id), elsewhere.get(rm_id, NOTHING)
        holdings.append(
            HoldingState(
                rm_id=rm_id,
                here=use is not None,
                used=EMPTY if use is None else _limited(use.used, report),
                slice=has.slice,
                wanted=has.want if use is None else use.wanted,
                overdraft=has.overdraft if sliced else EMPTY,
            )
        )
    used = {name: report.used.get(name, 0) for name in report.limit}
    return BudgetState(
        name=report.name,
        limit=report.limit,
        members=report.members,
        used=used,
        unassigned=subtract(report.limit, used) if escrowed is None else escrowed.rest(),
        sliced=sliced,
        counting=report.counting or (escrowed is not None and bool(escrowed.settling)),
        holdings=tuple(holdings),
    )
