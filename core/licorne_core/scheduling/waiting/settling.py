"""Settles what a move changes for others: which blockers may let an ask through.

The accounts that a request leaves and enters say it. Freed amounts help those that wait for quotas
and nodes. What the RM comes to know of a node voids its answers about the node.
"""

from typing import Final

from licorne_core.model.apps.application import Application
from licorne_core.model.apps.requests import ACCOUNTS, ASSUMED, Account, Request
from licorne_core.model.apps.states import AppState
from licorne_core.model.nodes.node import Node
from licorne_core.model.queues.queue import Queue
from licorne_core.scheduling.reservations.reserving import Reservations, note_allocating
from licorne_core.scheduling.waiting.changes import Listeners

# Read from the enumeration once: that costs as much as two calls.
_LISTED: Final = Account.LISTED
_PENDING: Final = Account.PENDING
_ON_NODE: Final = Account.ON_NODE
_ALLOCATED: Final = Account.ALLOCATED
_KNOWN: Final = Account.KNOWN
_ASKED: Final = Account.ASKED
_LINKED: Final = Account.LINKED
_PREEMPTING: Final = Account.PREEMPTING

Accounts = tuple[Account, ...]


class Settling:
    """Settles the moves of one partition."""

    __slots__ = ("_changes", "_reservations", "_wakeups")

    def __init__(self, listeners: Listeners, reservations: Reservations) -> None:
        """Settle with these queues, nodes and promises."""
        self._changes = listeners.changes
        self._wakeups = listeners.wakeups
        self._reservations = reservations

    def moved(
        self,
        app: Application,
        request: Request,
        left: Accounts,
        entered: Accounts,
        node: Node | None,
    ) -> None:
        """A request has left and entered these accounts; `node` is where it takes or took room.

        One that left and entered none is being stopped, and is no possible victim any more.
        """
        if _ALLOCATED in left:
            if _PREEMPTING in left:
                self._reservations.victim_gone(request)
            self._freed(app)
        if _KNOWN in entered and request.ask.placeholder:
            self._keeps_room(app)
        if node is not None:
            self._moved_on(node, left, entered)
        is_counted = _PENDING in entered or _ALLOCATED in entered or _LISTED in left
        # A placeholder that is stopped for a real ask is told of with that.
        is_stopped = not (left or entered) and request.partner is None
        if is_counted or is_stopped or _PENDING in left or _ALLOCATED in left:
            self._changes.app_changed(app)

    def _freed(self, app: Application) -> None:
        """Wake items that wait for resources of the application, or for its end."""
        if not app.allocation_count:
            # It has lost all that it had: another one may start instead.
            note_allocating(app)
            self._wakeups.may_run_again((*app.trackers, *app.leaf.lineage))
        self._wakeups.room_in(app.quotas)

    def _keeps_room(self, app: Application) -> None:
        """A real ask may take the place of a placeholder that the RM knows."""
        self._wakeups.replacing.wake((app,))
        self._wakeups.waiting.runnable = True
        note_allocating(app)

    def _moved_on(self, node: Node, left: Accounts, entered: Accounts) -> None:
        wakeups = self._wakeups
        if _ON_NODE in left:
            if _KNOWN in left or _LINKED in left:
                node.note_known_change(narrowed=False)
            wakeups.node_improved(node)
        elif _ASKED in left:
            # The RM counts it as placed there.
            self._told(node, void=node.forget_results(), filled=_KNOWN in entered)
        elif _KNOWN in entered:
            self._told(node, void=node.note_known_change(narrowed=True), filled=True)
        elif _ON_NODE in entered:
            wakeups.node_filled(node)
        elif _PREEMPTING in entered or not entered:
            wakeups.victims_changed(node)

    def resized(self, app: Application, request: Request, node: Node) -> None:
        """A request has another size on the node."""
        node.note_known_change(narrowed=True)
        accounts = ACCOUNTS[request.state]
        if _PREEMPTING in accounts:
            self._reservations.promises.victim_resized(request)
        if _ALLOCATED in accounts:
            self._freed(app)
            self._changes.app_changed(app)
        self._wakeups.node_improved(node)

    def placed(self, app: Application, request: Request, node: Node, *, same_priority: bool) -> None:
        """An ask was placed by a decision: `moved`, written out for speed."""
        if app.reserved and app.allocation_count == 1:
            self._wakeups.app_counts(app)
        self._changes.allocated(app, app.leaf, same_priority=same_priority)
        known = request.state is not ASSUMED
        if not known:
            note_allocating(app)
        elif request.ask.placeholder:
            self._keeps_room(app)
        if known and node.note_known_change(narrowed=True):
            self._wakeups.node_improved(node)
        else:
            self._wakeups.node_filled(node)

    def told(self, node: Node) -> None:
        """The RM counts something on the node that is not there."""
        self._told(node, void=node.note_known_change(narrowed=True), filled=True)

    def _told(self, node: Node, *, void: bool, filled: bool) -> None:
        """The RM was told of the node; `void` if it had refused asks there, and may not now."""
        if void:
            self._wakeups.node_improved(node)
        elif filled:
            self._wakeups.node_filled(node)

    def state_changed(self, app: Application, before: AppState) -> None:
        """The application has another state, which was this one."""
        leaf: Queue = app.leaf
        was_allocating = app.app_id in leaf.allocating
        self.counts_as(app, before, app.state)
        note_allocating(app)
        if was_allocating and app.state is not AppState.RUNNING:
            self._wakeups.may_run_again(leaf.lineage)
        self._changes.app_changed(app)

    def counts_as(self, app: Application, before: AppState, after: AppState) -> None:
        """Queues count it as running, or not any more."""
        leaf: Queue = app.leaf
        change = (after is AppState.RUNNING) - (before is AppState.RUNNING)
        if not change:
            return
        for queue in leaf.lineage:
            queue.running_applications += change
        if change < 0:
            self._wakeups.may_run_again(leaf.lineage)
        else:
            self._wakeups.app_counts(app)
