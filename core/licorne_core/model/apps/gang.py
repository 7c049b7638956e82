"""Gang of an application: its task groups, and counts of their placeholders (spec § 6).

A gang is started whole or not at all. Its placeholders are asked for first and keep the room; then
real allocations take their places one by one.
"""

from bisect import bisect_left, insort
from collections.abc import Mapping
from enum import StrEnum

from licorne_core.model.apps.requests import Request
from licorne_core.values.asks import Ask
from licorne_core.values.resources import EMPTY, Resources, is_zero
from licorne_core.values.tags import tag_value

DEFAULT_TIMEOUT = 900.0
"""Seconds for which placeholders are kept if the application does not say (spec § 5.4)."""

LEAST_TIMEOUT = 0.001
"""Seconds left to placeholders that arrive after their timeout."""

CREATION_TAG = "yunikorn.apache.org/creationTime"
"""The tag of an application with the unix seconds from which the timeout counts."""

_MAX_MILLISECONDS = (2**63 - 1) // 1_000_000


class GangStyle(StrEnum):
    """Fate of a gang whose placeholders time out (spec § 6.8)."""

    SOFT = "Soft"
    """The application runs on without it: its asks are dropped, and the RM sends them again."""
    HARD = "Hard"
    """The application fails."""

    @classmethod
    def of(cls, text: str) -> "GangStyle":
        """The style that an application names; anything unknown is soft."""
        return cls.HARD if text.strip().lower() == "hard" else cls.SOFT


class TaskGroup:
    """The placeholders of one task group, as numbers.

    Always true: each placeholder that was ever taken is in `count`; it is in `replaced` or in
    `timed_out` once, or else it is open. `free` has the open ones that keep room and that no real
    ask is matched to, in the order of their arrival. `cancelled` has the open ones that were too
    small for a real ask: the RM was asked to stop them, and has not confirmed.
    """

    __slots__ = ("cancelled", "count", "free", "min_resource", "name", "replaced", "timed_out")

    def __init__(self, name: str, min_resource: Resources) -> None:
        """Start without placeholders; `min_resource` is the size of the first one."""
        self.name = name
        self.min_resource = min_resource
        self.count = 0
        """Placeholders that were taken, new and recovered ones."""
        self.replaced = 0
        """Number of placeholders replaced by real allocations."""
        self.timed_out = 0
        """Number of placeholders that ended in another way, or are stopping with no ask waiting."""
        self.free: list[Request] = []
        self.cancelled: dict[Request, None] = {}

    def __repr__(self) -> str:
        """``<TaskGroup workers: 2 of 5 open>``."""
        return f"<TaskGroup {self.name}: {self.open} of {self.count} open>"

    @property
    def open(self) -> int:
        """Placeholders that real asks wait for: to replace them, or to be rid of them (§ 6.4)."""
        return self.count - self.replaced - self.timed_out


def _arrival(placeholder: Request) -> int:
    return placeholder.arrival


class Gang:
    """Gang of an application: its task groups by name, and their terms."""

    __slots__ = ("free_count", "groups", "placeholder_ask", "style", "timeout")

    def __init__(
        self,
        placeholder_ask: Resources = EMPTY,
        style: GangStyle = GangStyle.SOFT,
        timeout: float = DEFAULT_TIMEOUT,
    ) -> None:
        """Start without placeholders; `timeout` is in seconds from the first that keeps room."""
        self.placeholder_ask = placeholder_ask
        """Total of all placeholders; empty for an application without a gang."""
        self.style = style
        self.timeout = timeout
        self.groups: dict[str, TaskGroup] = {}
        self.free_count = 0
        """Placeholders that keep room for real asks that are not there yet."""

    def group_of(self, ask: Ask) -> TaskGroup:
        """The task group of a placeholder."""
        return self.groups[ask.task_group]

    def open_group(self, task_group: str, *, placeholder: bool) -> TaskGroup | None:
        """Return the group whose placeholders a real ask waits for; None if it is a normal ask."""
        if placeholder or not self.groups:
            return None
        group = self.groups.get(task_group)
        return group if group is not None and group.open else None

    def came(self, ask: Ask) -> None:
        """Count a new placeholder."""
        group = self.groups.get(ask.task_group)
        if group is None:
            group = TaskGroup(ask.task_group, ask.ask_class.resources)
            self.groups[ask.task_group] = group
        group.count += 1

    def keep(self, placeholder: Request) -> None:
        """Note that a placeholder keeps room, and no real ask is matched to it."""
        insort(self.group_of(placeholder.ask).free, placeholder, key=_arrival)
        self.free_count += 1

    def take(self, placeholder: Request) -> None:
        """Note that a placeholder is not free any more."""
        free = self.group_of(placeholder.ask).free
        del free[bisect_left(free, placeholder.arrival, key=_arrival)]
        self.free_count -= 1

    @property
    def is_open(self) -> bool:
        """True if a placeholder is open: it waits, keeps room, or is being replaced."""
        return any(group.open for group in self.groups.values())

    def is_complete(self, kept: Resources) -> bool:
        """True if its placeholders keep all the room that it asked for (spec § 6.7).

        Only types that were asked for and are kept count, as in the older core.
        """
        wanted = self.placeholder_ask
        shared = wanted.keys() & kept.keys()
        return bool(shared) and all(wanted[name] == kept[name] for name in shared)

    @property
    def is_wanted(self) -> bool:
        """True if the application asked for a gang when it was submitted."""
        return not is_zero(self.placeholder_ask)


def placeholder_timeout(milliseconds: int, tags: Mapping[str, str], now: float) -> float:
    """Seconds that placeholders are kept: the configured time, less the time spent (§ 5.4).

    The time counts from the application's creation, as its tag says it in unix seconds.
    """
    timeout = DEFAULT_TIMEOUT
    if 0 < milliseconds <= _MAX_MILLISECONDS:
        timeout = milliseconds / 1000
    created = tag_value(tags, CREATION_TAG)
    if created.isascii() and created.isdigit() and len(created) < 18:
        timeout -= max(0.0, now - int(created))
    return max(LEAST_TIMEOUT, timeout)
