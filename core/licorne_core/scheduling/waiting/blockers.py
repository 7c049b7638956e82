"""Blockers: what keeps ask groups or applications from being served, each with one question.

`lets_through` asks whether it would let somebody through now. A blocker knows whom it blocks:
`scheduling/waiting/waiting.py` puts them on its shelves and takes them off.
"""

from collections.abc import Iterator
from typing import Any

from licorne_core.model.apps.application import Application
from licorne_core.model.apps.gang import TaskGroup
from licorne_core.model.queues.queue import Queue
from licorne_core.model.queues.states import QueueState
from licorne_core.model.quotas import Quota, may_run_one_more
from licorne_core.scheduling.node_search.fitting import FittingIndex
from licorne_core.scheduling.waiting.waiting_line import Amounts, LineOwner, WaitingLine, lower
from licorne_core.values.ranking import Ranking
from licorne_core.values.resources import Items


class Blocker(LineOwner):
    """Something that is in the way of those who wait for it.

    `waiting_lines` has, for each ranking on the way from root to those who wait, the items that lead to
    them; `waiting` says how many wait. `priority_pass` has the items that come before the regular pass
    and wait for it, each with the collection that it is in (`scheduling/priority_pass.py`).
    """

    __slots__ = ("items", "priority_pass", "waiting", "waiting_lines")

    def __init__(self, items: Items = ()) -> None:
        """It blocks nobody yet. `items` are amounts of which there is too little."""
        super().__init__()
        self.items = items
        self.waiting_lines: dict[Ranking[Any], WaitingLine] = {}
        self.priority_pass: dict[Any, Any] = {}
        self.waiting = 0

    @property
    def owner(self) -> "Blocker":
        """Whose shelves those who wait stand on."""
        return self

    def lets_through(self) -> bool:
        """Whether it would let one of those who wait through now: each kind has a rule."""
        return True

    def open(self) -> None:
        """It has changed so that it may let somebody through."""
        self.changes += 1

    def shut(self) -> None:
        """Somebody was tried who waits for it, in vain."""

    def is_noted(self, wanted: Items, top: Ranking[Any]) -> None:
        """The first of all waits for it, or somebody who wants less; `top` is above all of them."""

    def watch(self, item: Any, collection: Any) -> None:
        """An item of the collection, which comes before the regular pass, waits for it."""
        self.priority_pass[item] = collection

    def unwatch(self, item: Any) -> None:
        """The item waits for it no more."""
        del self.priority_pass[item]

    def end_pass(self) -> None:
        """A pass is through: nobody who waits could be let through."""

    def retire(self) -> None:
        """Nobody waits for it any more."""

    def retire_if_unused(self) -> None:
        """Whoever it was found for does not wait for it: forget it unless others do."""
        if self.blocks_nobody:
            self.retire()

    @property
    def blocks_nobody(self) -> bool:
        """Whether nobody waits for it."""
        return not (self.waiting or self.priority_pass)


class Pool(Blocker):
    """Something of which there is too little for many sizes: room on nodes, or under a maximum.

    Each size has a `Shortage`. All who wait stand on the shelves of the pool, so that a change
    costs nothing for the sizes that it does not help.
    Always true: nobody who waits wants less than `least`, and if it is None nobody waits.
    """

    __slots__ = ("least", "top", "watched")

    def __init__(self) -> None:
        """Nobody has asked yet."""
        super().__init__()
        self.least: Amounts | None = None
        self.top: Ranking[Any] | None = None
        """The ranking of root's children, on whose shelf everybody is who waits."""
        self.watched = FittingIndex()
        """The shortages that somebody waits for who comes before the regular pass."""

    def lets_through(self) -> bool:
        """Whether somebody of those who wait may be let through."""
        return self.least is not None and self.may_fit(self.least)

    def is_noted(self, wanted: Items, top: Ranking[Any]) -> None:
        """The first of all waits for it, or somebody who wants less; `top` is above all of them."""
        self.top = top
        self.lower(wanted)

    def wanted_by(self, item: Any) -> Items:
        """Amounts that nobody whom the item leads to wants less of."""
        if isinstance(item, Queue | Application):
            return tuple(self.waiting_lines[item.ranking].least().items())
        shortage: Shortage = item.blocker
        return shortage.items

    def passes(self, item: Any) -> bool:
        """Whether somebody whom the item leads to is let through."""
        if isinstance(item, Queue | Application):
            inside = self.waiting_lines.get(item.ranking)
            return inside is not None and inside.first(item.ranking) is not None
        shortage: Shortage = item.blocker
        return shortage.lets_through()

    def lower(self, items: Items) -> None:
        """Somebody may come to wait who wants these amounts."""
        if self.least is None:
            self.least = dict(items)
        elif self.least:
            lower(self.least, items)

    def end_pass(self) -> None:
        """A pass is through: the least is that of those who wait now."""
        if not len(self.watched):
            waiting_line = None if self.top is None else self.waiting_lines.get(self.top)
            self.least = None if waiting_line is None else waiting_line.least()


class Shortage(Blocker):
    """There is too little in a pool for these amounts."""

    __slots__ = ("pool", "shut_at")

    def __init__(self, pool: Pool, items: Items) -> None:
        """Of the pool."""
        super().__init__(items)
        self.pool = pool
        self.waiting_lines = pool.waiting_lines
        self.shut_at = -1

    @property
    def owner(self) -> Blocker:
        """All who wait for something of the pool stand in one line."""
        return self.pool

    def lets_through(self) -> bool:
        """Whether there is enough now, and nobody has tried it in vain since the pool changed."""
        return self.shut_at != self.pool.changes and self.is_covered()

    def shut(self) -> None:
        """Somebody was tried who waits for it, in vain."""
        self.shut_at = self.pool.changes

    def is_covered(self) -> bool:
        """Whether there is enough now."""
        raise NotImplementedError

    def watch(self, item: Any, collection: Any) -> None:
        """The pool knows which shortages those wait for who come before the regular pass."""
        if not self.priority_pass:
            self.pool.watched.add(self)
            self.pool.lower(self.items)
        super().watch(item, collection)

    def unwatch(self, item: Any) -> None:
        """The item waits for it no more."""
        super().unwatch(item)
        if not self.priority_pass:
            self.pool.watched.remove(self)


class RunningLimit(Blocker):
    """A queue, a user or a group lets no further application start (spec §§ 4.12, 10.5)."""

    __slots__ = ("_all", "quota")

    def __init__(self, quota: Quota, limits: "RunningLimits") -> None:
        """It is one of those limits."""
        super().__init__()
        self.quota = quota
        self._all = limits

    def lets_through(self) -> bool:
        """Whether another application may start."""
        return may_run_one_more(self.quota)

    def retire(self) -> None:
        """Forget it."""
        self._all.drop(self)


class StoppedQueue(Blocker):
    """An operator has stopped a queue: nothing in it or below is tried (spec § 4.2).

    The regular pass does not come there, so only what comes before it waits for this.
    """

    __slots__ = ("_all", "queue")

    def __init__(self, queue: Queue, stopped: "StoppedQueues") -> None:
        """It is one of those queues."""
        super().__init__()
        self.queue = queue
        self._all = stopped

    def lets_through(self) -> bool:
        """Whether it was started again."""
        return self.queue.state is not QueueState.STOPPED

    def retire(self) -> None:
        """Forget it."""
        self._all.drop(self)


class BackOff(Blocker):
    """An application is not tried for a while, as too many of its asks found no node (§ 8.3a)."""

    __slots__ = ("app",)

    def __init__(self, app: Application) -> None:
        """It blocks this application only."""
        super().__init__()
        self.app = app

    def lets_through(self) -> bool:
        """Whether the back-off is over."""
        return not self.app.backoff_until


class OpenPlaceholders(Blocker):
    """Real asks of a task group wait to replace its placeholders, or for their end (§ 6.4)."""

    __slots__ = ("_all", "task_group")

    def __init__(self, task_group: TaskGroup, waits: "GangWaits") -> None:
        """It is one of those waits."""
        super().__init__()
        self.task_group = task_group
        self._all = waits

    def lets_through(self) -> bool:
        """Whether no placeholder is open."""
        return not self.task_group.open

    def retire(self) -> None:
        """Forget it."""
        self._all.drop(self)


class GangWaits:
    """The task groups whose open placeholders block real asks."""

    __slots__ = ("_by_group",)

    def __init__(self) -> None:
        """None."""
        self._by_group: dict[TaskGroup, OpenPlaceholders] = {}

    def get(self, task_group: TaskGroup) -> OpenPlaceholders:
        """The blocker of the task group."""
        blocker = self._by_group.get(task_group)
        if blocker is None:
            blocker = self._by_group[task_group] = OpenPlaceholders(task_group, self)
        return blocker

    def find(self, task_group: TaskGroup) -> OpenPlaceholders | None:
        """The blocker of the task group, if it blocks somebody."""
        return self._by_group.get(task_group)

    def drop(self, blocker: OpenPlaceholders) -> None:
        """It blocks nobody any more."""
        del self._by_group[blocker.task_group]

    def __iter__(self) -> Iterator[OpenPlaceholders]:
        """All of them."""
        return iter(self._by_group.values())


class RunningLimits:
    """The limits on running applications that block somebody, by quota."""

    __slots__ = ("_by_quota",)

    def __init__(self) -> None:
        """None."""
        self._by_quota: dict[Quota, RunningLimit] = {}

    def get(self, quota: Quota) -> RunningLimit:
        """The limit of the quota."""
        limit = self._by_quota.get(quota)
        if limit is None:
            limit = self._by_quota[quota] = RunningLimit(quota, self)
        return limit

    def find(self, quota: Quota) -> RunningLimit | None:
        """The limit of the quota, if it blocks somebody."""
        return self._by_quota.get(quota)

    def drop(self, limit: RunningLimit) -> None:
        """It blocks nobody any more."""
        del self._by_quota[limit.quota]

    def __iter__(self) -> Iterator[RunningLimit]:
        """All of them."""
        return iter(self._by_quota.values())


class StoppedQueues:
    """The stopped queues that block somebody."""

    __slots__ = ("_by_queue",)

    def __init__(self) -> None:
        """None."""
        self._by_queue: dict[Queue, StoppedQueue] = {}

    def get(self, queue: Queue) -> StoppedQueue:
        """The blocker of the queue."""
        blocker = self._by_queue.get(queue)
        if blocker is None:
            blocker = self._by_queue[queue] = StoppedQueue(queue, self)
        return blocker

    def find(self, queue: Queue) -> StoppedQueue | None:
        """The blocker of the queue, if it blocks somebody."""
        return self._by_queue.get(queue)

    def drop(self, blocker: StoppedQueue) -> None:
        """It blocks nobody any more."""
        del self._by_queue[blocker.queue]

    def __iter__(self) -> Iterator[StoppedQueue]:
        """All of them."""
        return iter(self._by_queue.values())
