"""Everything that waits in a partition, and the backlog.

Backlog: groups that found no room at their last try, each heard in its turn (spec § 8.6).
"""

from collections import OrderedDict
from collections.abc import Iterable, Iterator
from itertools import islice

from licorne_core.model.apps.groups import AskGroup
from licorne_core.model.nodes.book import NodeBook
from licorne_core.scheduling.order import ReservedAsks
from licorne_core.scheduling.replacing import ReplacingApps
from licorne_core.scheduling.waiting.blockers import Blockers
from licorne_core.scheduling.waiting.gangs import NoPlace
from licorne_core.scheduling.waiting.reserved_nodes import ReservationLimits
from licorne_core.scheduling.waiting.shortages import KeptNodes
from licorne_core.scheduling.waiting.waiting import Waiting
from licorne_core.values.ids import PartitionName


class Backlog:
    """Groups that no node took, or that were more than the cluster had left, in a ring.

    Always true: every group that waits, is `nowhere` and may go to any node is in it. Others may
    be: they are forgotten when it is their turn. A group that is tried again keeps its place.
    """

    def __init__(self) -> None:
        """Start empty."""
        self._groups: OrderedDict[AskGroup, None] = OrderedDict()

    def __contains__(self, group: AskGroup) -> bool:
        """True if it will have its turn."""
        return group in self._groups

    def note(self, group: AskGroup) -> None:
        """The group was tried, and there is no room for it."""
        if group.ask_class.required_node is None:
            self._groups[group] = None
            group.in_backlog = True

    def forget(self, group: AskGroup) -> None:
        """Forget a group without waiting or assumed asks."""
        if group.in_backlog:
            del self._groups[group]
            group.in_backlog = False

    def first_groups(self, most: int) -> Iterable[AskGroup]:
        """So many at most, those whose turn comes first; former ones may be among them."""
        return islice(self._groups, most)

    def next_groups(self, most: int) -> Iterator[AskGroup | None]:
        """Yield so many groups at most, behind the last one yielded; None for a former one.

        The caller may stop early: the next call goes on there.
        """
        groups = self._groups
        for _ in range(min(most, len(groups))):
            group = next(iter(groups))
            if group.nowhere:
                groups.move_to_end(group)
                yield group
            else:
                self.forget(group)
                yield None

    def clear(self) -> None:
        """Forget all groups."""
        for group in list(self._groups):
            self.forget(group)


class Wakeups:
    """Everything that waits in one partition: the blockers, and items behind them."""

    __slots__ = (
        "backlog",
        "blockers",
        "gangs",
        "kept_nodes",
        "replacing",
        "reservation_limits",
        "reserved",
        "waiting",
    )

    def __init__(self, nodes: NodeBook, partition: PartitionName) -> None:
        """Start without waiting items; `partition` is the name under which others may wake them."""
        self.waiting = Waiting()
        self.blockers = Blockers(partition)
        self.reservation_limits = ReservationLimits(nodes, self.blockers)
        self.reserved = ReservedAsks()
        self.replacing = ReplacingApps()
        self.kept_nodes = KeptNodes()
        self.backlog = Backlog()
        self.gangs: dict[NoPlace, None] = {}
        """Blockers of gangs that wait for a place together."""

    def clear(self) -> None:
        """Forget all waiting items."""
        self.waiting.clear()
        self.blockers.clear()
        self.reserved = ReservedAsks()
        self.replacing = ReplacingApps()
        self.kept_nodes.clear()
        self.backlog.clear()
        self.gangs.clear()
