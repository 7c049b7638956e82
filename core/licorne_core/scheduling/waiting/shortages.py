"""Shortages: maxima of queues, users and groups that block amounts (spec § 8.3c, e)."""

from collections.abc import Iterator

from licorne_core.model.quotas import Quota, headroom, within_max
from licorne_core.scheduling.waiting.blockers import Blocker, Pool, Shortage
from licorne_core.scheduling.waiting.waiting_line import Amounts
from licorne_core.values.resources import Items


class QuotaPool(Pool):
    """Headroom of a maximum, and the shortages of items that wait for it, by amounts."""

    __slots__ = ("known", "quota")

    def __init__(self, quota: Quota) -> None:
        """Start without waiting items."""
        super().__init__()
        self.quota = quota
        self.known: dict[Items, QuotaShortage] = {}

    def may_fit(self, least: Amounts) -> bool:
        """True if so much is left under the maximum."""
        return within_max(self.quota, tuple(least.items()))


class QuotaShortage(Shortage):
    """Blocks amounts that exceed the maximum of a queue, user or group (spec § 8.3c, e).

    Its items are the amounts that do not fit; zero for an amount promised to the ask that a lowered
    maximum has taken.
    """

    __slots__ = ("_all", "quota")

    def __init__(self, pool: QuotaPool, items: Items, shortages: "QuotaShortages") -> None:
        """Create one of those shortages."""
        super().__init__(pool, items)
        self.quota = pool.quota
        self._all = shortages

    def is_covered(self) -> bool:
        """True if the amounts fit under the maximum."""
        return within_max(self.quota, self.items)

    def retire(self) -> None:
        """Forget it."""
        self._all.drop(self)


class QuotaShortages:
    """Shortages of all quotas, by quota and amounts; only those with blocked items stay."""

    __slots__ = ("_by_quota",)

    def __init__(self) -> None:
        """Start empty."""
        self._by_quota: dict[Quota, QuotaPool] = {}

    def get(self, quota: Quota, items: Items) -> QuotaShortage:
        """The shortage of the quota for the amounts."""
        pool = self._by_quota.get(quota)
        if pool is None:
            pool = self._by_quota[quota] = QuotaPool(quota)
        shortage = pool.known.get(items)
        if shortage is None:
            shortage = pool.known[items] = QuotaShortage(pool, items, self)
        return shortage

    def that_may_fit(self, quota: Quota) -> list[Blocker]:
        """Return the blockers that may open, as some of the quota is free."""
        pool = self._by_quota.get(quota)
        if pool is None:
            return []
        found: list[Blocker] = [pool] if pool.waiting_lines and pool.lets_through() else []
        if len(pool.watched):
            may_fit = pool.watched.that_may_fit(headroom(quota))
            found += [shortage for shortage in may_fit if shortage.is_covered()]
        return found

    def drop(self, shortage: QuotaShortage) -> None:
        """Forget a shortage without blocked items."""
        pool = self._by_quota[shortage.quota]
        del pool.known[shortage.items]
        if not pool.known:
            del self._by_quota[shortage.quota]

    def __iter__(self) -> Iterator[QuotaShortage]:
        """All of them."""
        for pool in self._by_quota.values():
            yield from pool.known.values()
