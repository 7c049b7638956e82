"""Moves requests from state to state, and posts the difference of their accounts; moves nodes (§ 7).

`ACCOUNTS` of `model/apps/requests.py` lists the totals in which a request counts in each state. A move
removes the request from the accounts of the old state, and adds it to those of the new state. The placing
of a pending ask is written by hand for speed (`Allocations.allocate`); a property test compares it with
the table.
"""

from dataclasses import replace
from typing import Final

from licorne_core.ledger.pending import PendingAsks, enlist, unlist
from licorne_core.ledger.reserving import Reservations
from licorne_core.messages.operators import OperatorMark
from licorne_core.model.apps.application import Application, note_highest
from licorne_core.model.apps.requests import ACCOUNTS, POSTINGS, Account, Request, RequestEvent
from licorne_core.model.books import (
    book_foreign,
    book_in_quotas,
    book_on_node,
    book_preempting,
    note_allocating,
    unbook_in_quotas,
    unbook_on_node,
    unbook_preempting,
)
from licorne_core.model.nodes.book import NodeBook
from licorne_core.model.nodes.node import Node
from licorne_core.model.queues.queue import Queue
from licorne_core.model.quotas import note_freed
from licorne_core.scheduling.waiting.dirty import Dirty
from licorne_core.values.asks import Allocation, Ask
from licorne_core.values.resources import Items, Resources

# Looked up once: each lookup in the enumeration costs as much as two calls.
_PENDING: Final = Account.PENDING
_ON_NODE: Final = Account.ON_NODE
_ALLOCATED: Final = Account.ALLOCATED
_KNOWN: Final = Account.KNOWN
_ASSUMED: Final = Account.ASSUMED
_ASKED: Final = Account.ASKED
_LINKED: Final = Account.LINKED
_PREEMPTING: Final = Account.PREEMPTING
_LISTED: Final = Account.LISTED

Accounts = tuple[Account, ...]


class Moves:
    """Moves the requests of one partition, and marks the objects that change with them."""

    __slots__ = ("_dirty", "_nodes", "_pending", "_reservations")

    def __init__(
        self, nodes: NodeBook, dirty: Dirty, pending: PendingAsks, reservations: Reservations
    ) -> None:
        """Serve one partition."""
        self._nodes = nodes
        self._dirty = dirty
        self._pending = pending
        self._reservations = reservations

    def move(
        self,
        app: Application,
        request: Request,
        event: RequestEvent,
        *,
        place: Allocation | None = None,
        now: float = 0.0,
    ) -> None:
        """Follow the event in the table of states, and post the difference.

        `place` is the request's new allocation, if it gets one. `now`, in unix seconds, is used
        for a request that was pending or becomes pending.
        """
        node = self._node_of(request, place)
        left, entered = self._post(app, request, event, place, now)
        self._mark(app, request, left, entered, node)

    def arrive(self, app: Application, request: Request, event: RequestEvent, place: Allocation) -> None:
        """Post a new request that is allocated from its beginning."""
        request.follow(event)
        self._enter_node(request, place)
        entered = ACCOUNTS[request.state]
        self._enter(entered, app, request, 0.0)
        self._mark(app, request, (), entered, self._node_of(request, place))

    def hand_over(self, app: Application, placeholder: Request, request: Request, place: Allocation) -> None:
        """End a placeholder, and give its room to a real request of the same size.

        No other item can use any of that room, so no other item is woken.
        """
        self._post(app, placeholder, RequestEvent.RELEASE, None, 0.0)
        _, entered = self._post(app, request, RequestEvent.CONFIRM, place, 0.0)
        node = self._node_of(request, place)
        self._mark(app, request, (), entered, node)
        if node is not None:
            self._dirty.mark_filled(node, ends_earlier=True)

    def resize(self, app: Application, request: Request, ask: Ask) -> None:
        """Change the size of an allocated request, and post the difference."""
        place = request.allocation
        kept = tuple(a for a in (_PREEMPTING, _ALLOCATED) if a in ACCOUNTS[request.state])
        self._leave(kept, app, request, 0.0)
        self._leave_node(request)
        app.holdings.memory += ask.footprint - request.ask.footprint
        request.ask = ask
        if place is not None:
            self._enter_node(request, replace(place, ask=ask))
        self._enter(kept, app, request, 0.0)
        if place is not None:
            node = self._nodes.by_id[place.node_id]
            node.note_known_change(narrowed=True)
            self._dirty.mark_node(node)
        if _PREEMPTING in kept:
            self._reservations.promises.victim_resized(request)
        if _ALLOCATED in kept:
            app.leaf.counters.allocations_resized += 1
            self._mark_freed(app)
            self._mark_usage(app)

    def _post(
        self, app: Application, request: Request, event: RequestEvent, place: Allocation | None, now: float
    ) -> tuple[Accounts, Accounts]:
        """Change the state by the event, post the difference, and return the accounts left and entered."""
        posting = left, entered = POSTINGS[request.state, event]
        request.follow(event)
        group = request.group if _PENDING in left or _ASKED in left else None
        if group is not None:
            # The request may become pending or get a check: its group must keep its class.
            group.assumed += 1
        self._leave(left, app, request, now)
        if place is not None:
            self._leave_node(request)
            self._enter_node(request, place)
        self._enter(entered, app, request, now)
        if group is not None:
            group.assumed -= 1
            self._pending.forget_if_idle(app, group)
        return posting

    def _mark(
        self, app: Application, request: Request, left: Accounts, entered: Accounts, node: Node | None
    ) -> None:
        """Mark the objects changed with these accounts; `node` is where the request takes or frees room.

        A request that left and entered no account is being stopped, and is no possible victim any more.
        """
        dirty = self._dirty
        if _ALLOCATED in left:
            if _PREEMPTING in left:
                self._reservations.victim_gone(request)
            self._mark_freed(app)
            if app.gang.is_whole and app.pending_count and app.gang.has_member(request.ask):
                self._pending.regroup(app)
        if _KNOWN in entered and request.ask.placeholder:
            # A real ask may replace this placeholder.
            note_allocating(app)
            dirty.mark_due(app)
        if node is not None:
            self._mark_node(node, left, entered)
        if _ALLOCATED in left or _ALLOCATED in entered:
            self._mark_usage(app)
            return
        is_counted = _PENDING in entered or _LISTED in left
        # For a placeholder that is stopped for a real ask, the change of that ask marks the application.
        is_stopped = not (left or entered) and request.partner is None
        if is_counted or is_stopped or _PENDING in left:
            dirty.mark_app(app)

    def _mark_usage(self, app: Application) -> None:
        """Mark the application, as its usage has changed."""
        usage = self._dirty.usage
        if usage.tracking:
            usage.touched[app] = app.leaf
        self._dirty.mark_app(app)

    def _mark_freed(self, app: Application) -> None:
        """Mark the quotas of the application: they have more room, or one application fewer."""
        self._dirty.mark(app.quotas)
        if app.further:
            note_freed(app.further)
        if not app.allocation_count:
            # It has no allocation any more: another application may start.
            note_allocating(app)
            self._dirty.mark(app.trackers)

    def _mark_node(self, node: Node, left: Accounts, entered: Accounts) -> None:
        """Void the predicate results of the node, if the RM is aware of the change."""
        dirty = self._dirty
        void = False
        if _ON_NODE in left:
            void = True
            if _KNOWN in left or _LINKED in left:
                node.note_known_change(narrowed=False)
        elif _ASKED in left:
            # The RM counts the request as placed on the node.
            void = node.forget_results()
        elif _KNOWN in entered:
            void = node.note_known_change(narrowed=True)
        if void:
            dirty.mark_node(node)
        elif _KNOWN in entered or _ON_NODE in entered:
            dirty.mark_filled(node)
        elif _PREEMPTING in entered or not entered:
            dirty.mark_victims(node)

    def _enter_node(self, request: Request, place: Allocation) -> None:
        """Book the amounts of the request on the node of the allocation."""
        node = self._nodes.by_id[place.node_id]
        book_on_node(place.ask.ask_class.items, node)
        self._nodes.measure(node)
        node.allocations[place] = None
        request.allocation = place

    def placed_on_closed(self, node: Node) -> None:
        """Record an ask that a decision has placed on a closed node."""
        self._nodes.measure(node)

    def _leave_node(self, request: Request) -> None:
        """Free the amounts of the request on its node, if any."""
        allocation = request.allocation
        if allocation is not None:
            node = self._nodes.by_id[allocation.node_id]
            unbook_on_node(allocation.ask.ask_class.items, node)
            self._nodes.measure(node)
            del node.allocations[allocation]
            request.allocation = None

    def _enter(self, accounts: Accounts, app: Application, request: Request, now: float) -> None:
        ask = request.ask
        for account in accounts:
            if account is _ALLOCATED:
                assert request.allocation is not None, f"{request!r} is on no node"
                book_in_quotas(ask.ask_class.items, app, placeholder=ask.placeholder)
                app.take(request, request.allocation)
            elif account is _LISTED:
                enlist(app, request)
            elif account is not _PENDING:
                self._count(account, app, request, 1)
            elif request.key in app.backing_off:
                self._pending.count_back_off(app, request, now)
            else:
                self._pending.enter(app, request, now)

    def _leave(self, accounts: Accounts, app: Application, request: Request, now: float) -> None:
        ask = request.ask
        for account in accounts:
            if account is _ALLOCATED:
                note_highest(app, ask.ask_class.items, placeholder=ask.placeholder)
                unbook_in_quotas(ask.ask_class.items, app, placeholder=ask.placeholder)
                app.give_back(request)
                if app.gang.is_parked and app.gang.units is not None:
                    # The next unit of the gang now has other members.
                    self._pending.regroup(app)
            elif account is _ON_NODE:
                self._leave_node(request)
            elif account is _LISTED:
                unlist(app, request)
            elif account is not _PENDING:
                self._count(account, app, request, -1)
            elif request.key in app.backing_off:
                self._pending.end_back_off(app, request, now)
            else:
                self._pending.leave(app, request, now)

    def _count(self, account: Account, app: Application, request: Request, by: int) -> None:
        """Count the request in an account, or (`by` is -1) remove it from the count."""
        if account is _KNOWN:
            app.tally.allocations += by
            app.placeholder_count += by * request.ask.placeholder
        elif account is _ASSUMED:
            app.assumed_count += by
        elif account is _ASKED:
            request.group.assumed += by
        elif account is not _ON_NODE:
            node = self._node_of(request)
            if node is not None and account is _LINKED:
                node.linked += by
            elif node is not None:
                post = book_preempting if by > 0 else unbook_preempting
                post(request.ask.ask_class.items, node, app)
                self._nodes.measure(node)
                # Asks that wait for the cluster without its victims may fit now.
                self._dirty.mark(app.leaf.lineage[-1:])
                if self._dirty.demands is not None:
                    self._dirty.demands.note(app.leaf)
                units = app.gang.units
                if units is not None and app.gang.has_member(request.ask):
                    units.mark_leaving(request, by)
                    self._pending.regroup(app)
                    # The application may move forward in its leaf.
                    self._dirty.mark_due(app)

    def _node_of(self, request: Request, place: Allocation | None = None) -> Node | None:
        """The node of its allocation, or of the given new allocation; None if there is none."""
        allocation = request.allocation or place
        return None if allocation is None else self._nodes.by_id[allocation.node_id]


class Cluster:
    """Changes the nodes of one partition, and records them in the dirty set."""

    def __init__(self, root: Queue, nodes: NodeBook, dirty: Dirty, reservations: Reservations) -> None:
        """Serve one partition."""
        self._root = root
        root.overhang = nodes.overhang
        self._nodes = nodes
        self._dirty = dirty
        self._reservations = reservations

    def add(self, node: Node) -> None:
        """Add a node; the cluster grows."""
        self._nodes.add(node)
        self._resized()
        self._dirty.mark_node(node)

    def resize(self, node: Node, capacity: Resources, now: float) -> None:
        """Replace a node's capacity (spec § 7.2: no allocation is stopped)."""
        self._nodes.resize(node, capacity)
        node.note_known_change(narrowed=True)
        _lose_claims(node)
        self._reservations.shrunk(node, now)
        self._resized()
        self._dirty.mark_node(node)

    def remove(self, node: Node, now: float) -> None:
        """Remove an empty node; the cluster shrinks."""
        self._reservations.leave(node, now)
        _lose_claims(node)
        self._nodes.remove(node)
        self._dirty.forget_node(node)
        self._resized()

    def set_schedulable(self, node: Node, *, schedulable: bool) -> bool:
        """Set whether the node is schedulable, as its RM drains or reopens it; True if the node changed."""
        before = node.schedulable
        node.set_schedulable(schedulable=schedulable)
        return self._is_another(node, before)

    def close(self, node: Node, mark: OperatorMark | None, now: float) -> bool:
        """Close the node to new allocations, or reopen it if `mark` is None; True if this changed the node.

        A closed node can be reserved only for asks that require it.
        """
        before = node.schedulable
        node.close(mark)
        if mark is not None:
            self._reservations.give_way(node, now)
        return self._is_another(node, before)

    def _is_another(self, node: Node, before: bool) -> bool:
        """Mark the node. If its `schedulable` is no longer `before`, release its claims and return True."""
        changed = node.schedulable != before
        if changed:
            node.note_known_change(narrowed=True)
            _lose_claims(node)
            self._nodes.count(node)
        self._dirty.mark_node(node)
        return changed

    def occupy(self, node: Node, before: Items, after: Items) -> None:
        """Replace the amounts of a foreign allocation on a node (spec § 7.3)."""
        book_foreign(before, after, node)
        self._nodes.count_usable(node)
        _lose_claims(node)
        node.note_known_change(narrowed=bool(after))
        self._dirty.mark_node(node)

    def _resized(self) -> None:
        """Set root's maximum to the size of the cluster (spec § 4.5); shares follow from it."""
        self._root.max = self._nodes.total
        self._dirty.mark_cluster()


def _lose_claims(node: Node) -> None:
    """Release all claims on a removed, closed or resized node."""
    for claim in list(node.claims):
        claim.lose(node)
