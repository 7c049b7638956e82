"""All waiting items of a partition, and the backlog.

The backlog has the groups that found no node at their last try; each is considered in turn (spec § 8.6).
"""

from collections import OrderedDict
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Final

from licorne_core.model.apps.groups import AskGroup
from licorne_core.model.nodes.book import NodeBook, Packing
from licorne_core.scheduling.order import ReservedAsks
from licorne_core.scheduling.replacing import ReplacingApps
from licorne_core.scheduling.waiting.blockers import Blockers
from licorne_core.scheduling.waiting.gangs import NoPlace
from licorne_core.scheduling.waiting.reserved_nodes import ReservationLimits
from licorne_core.scheduling.waiting.shortages import ReservedNodeWaits
from licorne_core.scheduling.waiting.waiting import Waiting
from licorne_core.values.ids import PartitionName


class Backlog:
    """Groups that fitted no node, or exceeded the headroom of the cluster, in a ring.

    Always true: every waiting group that is `nowhere` and may go to any node is in it. Others may
    be in it until their turn, and are then dropped. A group that is tried again keeps its place.
    """

    def __init__(self) -> None:
        """Start empty."""
        self._groups: OrderedDict[AskGroup, None] = OrderedDict()
        self.lacking: dict[AskGroup, None] = {}
        """Groups in the ring whose last try failed only because no large enough node had room."""
        self.untried: dict[AskGroup, None] = {}
        """Groups with asks that have arrived since the last complete pass, at most `MOST_UNTRIED`."""
        self.has_new = False
        """True if asks have arrived since the beginning of the last turn."""

    def __contains__(self, group: AskGroup) -> bool:
        """True if the group is in the ring."""
        return group in self._groups

    def note(self, group: AskGroup, *, lacks: bool) -> None:
        """Add a group that found no node; `lacks` if nodes of sufficient size lacked room at its last try."""
        if group.ask_class.required_node is None:
            self._groups[group] = None
            group.in_backlog = True
            self.lacking.pop(group, None)
            if lacks:
                self.lacking[group] = None

    def forget(self, group: AskGroup) -> None:
        """Forget a group without waiting or assumed asks."""
        if group.in_backlog:
            del self._groups[group]
            group.in_backlog = False
            self.lacking.pop(group, None)

    def first_groups(self, most: int) -> Iterable[AskGroup]:
        """At most `most` groups in the order of their turns; dropped ones may be among them."""
        return islice(self._groups, most)

    def next_groups(self, most: int) -> Iterator[AskGroup | None]:
        """Yield at most `most` groups, following the last one yielded; None for a dropped one.

        The caller may stop early: the next call continues after the last group.
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


MOST_UNTRIED: Final = 256
"""Maximum number of groups in `Backlog.untried`, which are examined before a turn."""

MOST_SHORT_GANGS: Final = 64
"""Maximum number of groups in `Wakeups.short_gangs`, which are examined after each turn."""


class Wakeups:
    """All waiting items of one partition, and the blockers that they wait for."""

    __slots__ = (
        "backlog",
        "blockers",
        "gangs",
        "replacing",
        "reservation_limits",
        "reserved",
        "reserved_node_waits",
        "short_gangs",
        "waiting",
    )

    def __init__(self, nodes: NodeBook, partition: PartitionName) -> None:
        """Start without waiting items; `partition` is the name by which shared quotas wake them."""
        self.waiting = Waiting()
        self.blockers = Blockers(partition)
        self.reservation_limits = ReservationLimits(nodes, self.blockers)
        self.reserved = ReservedAsks()
        self.replacing = ReplacingApps()
        self.reserved_node_waits = ReservedNodeWaits()
        self.backlog = Backlog()
        self.gangs: dict[NoPlace, None] = {}
        """Blockers of gangs that wait for room for all members."""
        self.short_gangs: dict[AskGroup, Packing | None] = {}
        """Groups of gangs that exceeded the cluster's headroom when last tried, with their packings as in
        `NoPlace`; at most `MOST_SHORT_GANGS`. Groups that no longer wait may be among them."""

    def forget_order(self) -> None:
        """Rank the items of the priority passes again: even the form of their keys may have changed."""
        self.reserved.everything_changed()
        self.replacing.everything_changed()

    def clear(self) -> None:
        """Forget all waiting items."""
        self.waiting.clear()
        self.blockers.clear()
        self.reserved = ReservedAsks()
        self.replacing = ReplacingApps()
        self.reserved_node_waits.clear()
        self.backlog.clear()
        self.gangs.clear()
        self.short_gangs.clear()
