"""Blockers: what keeps ask groups or applications from being served, each with one question.

`lets_through` asks whether it would let somebody through now. A blocker knows whom it blocks:
`scheduling/waiting.py` puts them on its shelves and takes them off.
"""

from collections.abc import Iterator
from typing import Any

from licorne_core.apps.application import Application
from licorne_core.apps.gang import TaskGroup
from licorne_core.quotas import Quota, headroom, may_run_one_more, within_max
from licorne_core.ranking import Ranking
from licorne_core.resources import Items
from licorne_core.scheduling.fitting import FittingIndex
from licorne_core.scheduling.shelf import Shelf


class Blocker:
    """Something that is in the way of those who wait for it.

    `shelves` has, for each ranking on the way from root to those who wait, the items that lead to
    them. `foremost` has the items that come before the regular pass and wait for it, each with the
    collection that it is in (`scheduling/foremost.py`).
    """

    __slots__ = ("foremost", "shelves")

    def __init__(self) -> None:
        """It blocks nobody yet."""
        self.shelves: dict[Ranking[Any], Shelf] = {}
        self.foremost: dict[Any, Any] = {}

    def lets_through(self) -> bool:
        """Whether it would let one of those who wait through now: each kind has a rule."""
        return True

    def end_pass(self) -> None:
        """A pass is through, and nobody who waits needed it although it was open."""

    def retire(self) -> None:
        """Nobody waits for it any more."""

    def retire_if_unused(self) -> None:
        """Whoever it was found for does not wait for it: forget it unless others do."""
        if self.blocks_nobody:
            self.retire()

    @property
    def blocks_nobody(self) -> bool:
        """Whether nobody waits for it."""
        return not (self.shelves or self.foremost)


class QuotaShortage(Blocker):
    """The maximum of a queue, a user or a group is in the way of amounts (spec § 8.3c, e)."""

    __slots__ = ("_all", "items", "quota")

    def __init__(self, quota: Quota, items: Items, shortages: "QuotaShortages") -> None:
        """It is one of those shortages."""
        super().__init__()
        self.quota = quota
        self.items = items
        """The amounts that do not fit; zero for what is kept free for the ask, and is not there."""
        self._all = shortages

    def lets_through(self) -> bool:
        """Whether the amounts fit under the maximum."""
        return within_max(self.quota, self.items)

    def retire(self) -> None:
        """Forget it."""
        self._all.drop(self)


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
    """Real asks of a task group wait to replace its placeholders (spec § 6.4)."""

    __slots__ = ("_all", "task_group")

    def __init__(self, task_group: TaskGroup, waits: "GangWaits") -> None:
        """It is one of those waits."""
        super().__init__()
        self.task_group = task_group
        self._all = waits

    def lets_through(self) -> bool:
        """Whether no placeholder is left to be replaced."""
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


class QuotaShortages:
    """The shortages of all quotas, by quota and amounts; only those that block somebody stay."""

    __slots__ = ("_by_quota",)

    def __init__(self) -> None:
        """None."""
        self._by_quota: dict[Quota, tuple[dict[Items, QuotaShortage], FittingIndex]] = {}

    def get(self, quota: Quota, items: Items) -> QuotaShortage:
        """The shortage of the quota for the amounts."""
        known, index = self._by_quota.setdefault(quota, ({}, FittingIndex()))
        shortage = known.get(items)
        if shortage is None:
            shortage = known[items] = QuotaShortage(quota, items, self)
            index.add(shortage)
        return shortage

    def that_fit(self, quota: Quota) -> Iterator[QuotaShortage]:
        """Those that would let somebody through now that something of the quota is free."""
        entry = self._by_quota.get(quota)
        if entry is None:
            return
        for shortage in entry[1].that_may_fit(headroom(quota)):
            if shortage.lets_through():
                yield shortage

    def drop(self, shortage: QuotaShortage) -> None:
        """It blocks nobody any more."""
        known, index = self._by_quota[shortage.quota]
        del known[shortage.items]
        index.remove(shortage)
        if not known:
            del self._by_quota[shortage.quota]

    def __iter__(self) -> Iterator[QuotaShortage]:
        """All of them."""
        for known, _ in self._by_quota.values():
            yield from known.values()


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
