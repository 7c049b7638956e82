"""Events about blocked applications and asks, noted by the pass on changes only."""

from collections.abc import Mapping

from licorne_core.events.allocations import PredicatesRefused, QueueRoomChanged, UserQuotaChanged
from licorne_core.events.apps import Bound, MayRunChanged
from licorne_core.events.journal import Journal
from licorne_core.events.preemption import NoVictimsOnRequiredNode
from licorne_core.model.apps.application import Application
from licorne_core.model.apps.groups import AskGroup
from licorne_core.model.queues.queue import Queue
from licorne_core.model.quotas import may_start, room_for
from licorne_core.model.trackers import Tracker
from licorne_core.scheduling.waiting.blockers import Blocker
from licorne_core.scheduling.waiting.shortages import QuotaShortage
from licorne_core.values.asks import Ask
from licorne_core.values.ids import NodeId


class Watch:
    """Sends changes to a journal; while it is off nothing is kept up to date."""

    __slots__ = ("_journal",)

    def __init__(self, journal: Journal) -> None:
        """Note changes in this journal."""
        self._journal = journal

    def room(self, leaf: Queue, group: AskGroup, blocker: Blocker | None, now: float) -> None:
        """Note a tried group that has run into a maximum, or got past one (spec § 12.1.3).

        Users and groups come first: while one of them blocks, queues are not checked.
        """
        journal = self._journal
        if not journal.on:
            return
        short = blocker.quota if isinstance(blocker, QuotaShortage) else None
        items, ask = group.ask_class.items, group.first().request.ask
        over_quota = isinstance(short, Tracker)
        if over_quota != group.over_quota:
            group.over_quota = over_quota
            room = room_for(items, group.app.trackers) if over_quota else None
            journal.note(UserQuotaChanged(now, ask, room))
        over_queue = isinstance(short, Queue)
        if not over_quota and over_queue != group.over_queue:
            group.over_queue = over_queue
            room = room_for(items, leaf.lineage) if over_queue else None
            journal.note(QueueRoomChanged(now, ask, leaf.path, room))

    def refused(self, group: AskGroup, reasons: Mapping[str, int], now: float) -> None:
        """Note the RM's refusals on all nodes with room: the number of nodes by reason."""
        for reason in reasons:
            group.note(reason, now)
        if self._journal.on and reasons:
            self._journal.note(PredicatesRefused(now, group.first().request.ask, reasons))

    def no_victims(self, ask: Ask, node_id: NodeId, now: float) -> None:
        """An ask requires a node, and no victims there would make room for it (spec § 9.5)."""
        if self._journal.on:
            self._journal.note(NoVictimsOnRequiredNode(now, ask, node_id))

    def may_run(self, app: Application, now: float) -> None:
        """An accepted application was looked at: do queues or limits let it start (§ 4.12)?"""
        journal = self._journal
        if not journal.on:
            return
        blocked_by = {
            Bound.QUOTA if isinstance(quota, Tracker) else Bound.QUEUE
            for quota in app.quotas
            if not may_start(quota, app.app_id)
        }
        for bound in Bound:
            if (bound in blocked_by) != (bound in app.blocked_by):
                journal.note(MayRunChanged(now, app.app_id, bound, bound not in blocked_by))
        app.blocked_by = tuple(bound for bound in Bound if bound in blocked_by)
