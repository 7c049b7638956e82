"""Queue properties and the settings derived from them (spec § 2.4)."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import TypeVar

from licorne_core.config.caps import MAX_AMOUNTS
from licorne_core.config.extra import parse_duration
from licorne_core.config.resource_names import meant_by, not_usual
from licorne_core.values.errors import ConfigError, shown
from licorne_core.values.names import Pattern
from licorne_core.values.priorities import INT32_MAX, INT32_MIN
from licorne_core.values.quantity import parse_quantity
from licorne_core.values.resources import Items


class AppSortPolicy(Enum):
    """Order of a leaf's applications (spec § 5.2)."""

    FIFO = "fifo"
    FAIR = "fair"
    STATE_AWARE = "stateaware"


class PreemptionPolicy(Enum):
    """Preemption policy of a queue (spec § 2.4)."""

    DEFAULT = "default"
    FENCE = "fence"
    DISABLED = "disabled"


class VictimOrder(Enum):
    """Order of victims for a queue's asks, behind opted-in ones that are no originators."""

    AGE = "age"
    """The youngest first."""
    COST = "cost"
    """The lowest priority first, then the least cost times seconds run, then the youngest."""


class _PriorityPolicy(Enum):
    DEFAULT = "default"
    FENCE = "fence"


class _Switch(Enum):
    ENABLED = "enabled"
    DISABLED = "disabled"


class _Flag(Enum):
    TRUE = "true"
    FALSE = "false"


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueSettings:
    """Settings from a queue's merged properties. Delays are in seconds, 0 for off.

    `preemption_minimum_runtime` is in seconds. `preemption_loss_limit` has amounts times seconds
    that the queue may lose to preemption in an hour, by resource name; a type that is not there may
    be lost without limit. `reserved_nodes` and `app_reserved_nodes` are the most nodes that may be
    reserved at a time, None for no bound of the queue's own.
    """

    app_sort: AppSortPolicy = AppSortPolicy.FIFO
    priority_sort: bool = True
    priority_fence: bool = False
    priority_offset: int = 0
    preemption: PreemptionPolicy = PreemptionPolicy.DEFAULT
    preemption_delay: float = 30.0
    preemption_minimum_runtime: float = 0.0
    preemption_loss_limit: Items = ()
    preemption_victim_order: VictimOrder = VictimOrder.AGE
    quota_preemption_delay: float = 0.0
    backoff_threshold: int = 0
    backoff_delay: float = 30.0
    reserved_nodes: int | None = None
    app_reserved_nodes: int | None = None
    reservation_exclusive: bool = False
    reservation_idle_timeout: float = 2.0


APP_SORT_POLICY = "application.sort.policy"
APP_SORT_PRIORITY = "application.sort.priority"
BACKOFF_THRESHOLD = "application.unschedasks.backoff"
BACKOFF_DELAY = "application.unschedasks.backoff.delay"
PRIORITY_POLICY = "priority.policy"
PRIORITY_OFFSET = "priority.offset"
PREEMPTION_POLICY = "preemption.policy"
PREEMPTION_DELAY = "preemption.delay"
PREEMPTION_MINIMUM_RUNTIME = "preemption.minimum.runtime"
PREEMPTION_LOSS_LIMIT = "preemption.loss.limit"
PREEMPTION_VICTIM_ORDER = "preemption.victim.order"
QUOTA_PREEMPTION_DELAY = "quota.preemption.delay"
RESERVATION_MAX_NODES = "reservation.max.nodes"
APP_RESERVATION_MAX_NODES = "application.reservation.max.nodes"
RESERVATION_EXCLUSIVE = "reservation.exclusive"
RESERVATION_IDLE_TIMEOUT = "reservation.idle.timeout"

_UINT64_MAX = 2**64 - 1
_INTEGER = Pattern("[+-]?[0-9]{1,20}")
_Choice = TypeVar("_Choice", bound=Enum)


def merge_properties(parent: Mapping[str, str], own: Mapping[str, str]) -> dict[str, str]:
    """The properties of a managed queue: its parent's merged ones, overridden by its own.

    Priority policy and offset start over in every queue, and of preemption policies only
    ``disabled`` goes on.
    """
    merged = dict(parent)
    for key, fresh in ((PRIORITY_POLICY, "default"), (PRIORITY_OFFSET, "0")):
        if key in merged:
            merged[key] = fresh
    inherited = merged.get(PREEMPTION_POLICY)
    if inherited is not None and inherited.strip().lower() != PreemptionPolicy.DISABLED.value:
        merged[PREEMPTION_POLICY] = PreemptionPolicy.DEFAULT.value
    return {**merged, **own}


def settings_of(properties: Mapping[str, str], warnings: list[str] | None = None) -> QueueSettings:
    """Settings from the merged properties.

    A bad value counts as not given and is never an error; a warning about it is added to `warnings`
    if that is given. Unknown keys are free for any use.
    """
    read = _Reading(properties, [] if warnings is None else warnings)
    standard = QueueSettings()
    return QueueSettings(
        app_sort=read.choice(APP_SORT_POLICY, standard.app_sort),
        priority_sort=read.choice(APP_SORT_PRIORITY, _Switch.ENABLED) is _Switch.ENABLED,
        priority_fence=read.choice(PRIORITY_POLICY, _PriorityPolicy.DEFAULT) is _PriorityPolicy.FENCE,
        priority_offset=read.integer(PRIORITY_OFFSET, INT32_MIN, INT32_MAX),
        preemption=read.choice(PREEMPTION_POLICY, standard.preemption),
        preemption_delay=read.delay(PREEMPTION_DELAY, standard.preemption_delay),
        preemption_minimum_runtime=read.delay(
            PREEMPTION_MINIMUM_RUNTIME, standard.preemption_minimum_runtime
        ),
        preemption_loss_limit=read.amounts(PREEMPTION_LOSS_LIMIT),
        preemption_victim_order=read.choice(PREEMPTION_VICTIM_ORDER, standard.preemption_victim_order),
        quota_preemption_delay=read.delay(QUOTA_PREEMPTION_DELAY, standard.quota_preemption_delay),
        backoff_threshold=read.integer(BACKOFF_THRESHOLD, 0, _UINT64_MAX),
        backoff_delay=read.delay(BACKOFF_DELAY, standard.backoff_delay),
        reserved_nodes=read.bound(RESERVATION_MAX_NODES, 0, INT32_MAX),
        app_reserved_nodes=read.bound(APP_RESERVATION_MAX_NODES, 0, INT32_MAX),
        reservation_exclusive=read.choice(RESERVATION_EXCLUSIVE, _Flag.FALSE) is _Flag.TRUE,
        reservation_idle_timeout=read.delay(RESERVATION_IDLE_TIMEOUT, standard.reservation_idle_timeout),
    )


@dataclass(frozen=True, slots=True)
class _Reading:
    """Reads single properties. A value that cannot be understood adds a warning."""

    properties: Mapping[str, str]
    warnings: list[str]

    def choice(self, key: str, standard: _Choice) -> _Choice:
        """Read one of a few words, in any case of letters."""
        text = self.properties.get(key)
        if text is None:
            return standard
        for option in type(standard):
            if option.value == text.strip().lower():
                return option
        known = ", ".join(str(option.value) for option in type(standard))
        self._bad(key, text, f"is none of {known}", standard.value)
        return standard

    def integer(self, key: str, low: int, high: int) -> int:
        """A whole number between the two, default 0."""
        return self.bound(key, low, high, instead="0") or 0

    def bound(self, key: str, low: int, high: int, instead: str = "none") -> int | None:
        """A whole number between the two; None by default."""
        text = self.properties.get(key)
        if text is None:
            return None
        if _INTEGER.matches(text) and low <= int(text) <= high:
            return int(text)
        self._bad(key, text, f"is no whole number from {low} to {high}", instead)
        return None

    def delay(self, key: str, standard: float) -> float:
        """A duration above zero, in seconds."""
        text = self.properties.get(key)
        if text is None:
            return standard
        seconds = parse_duration(text)
        if seconds is not None and seconds > 0:
            return seconds
        self._bad(key, text, "is no duration above zero, such as 30s", f"{standard:g}s")
        return standard

    def amounts(self, key: str) -> Items:
        """Quantities of resources, such as ``vcore=10,memory=4Gi``, by name; none by default."""
        text = self.properties.get(key)
        if text is None:
            return ()
        number = text.count(",") + 1
        if number > MAX_AMOUNTS:
            why = f"has {number} amounts, at most {MAX_AMOUNTS} are allowed"
            self._bad(key, shown(text), why, "none")
            return ()
        parts = [part.partition("=") for part in text.split(",")]
        try:
            amounts = {n.strip(): parse_quantity(n.strip(), amount) for n, _, amount in parts}
        except ConfigError:
            amounts = {}
        if "" in amounts or len(amounts) < len(parts):
            self._bad(key, text, "is no list of amounts, such as vcore=10,memory=4Gi", "none")
            return ()
        for name, meant in ((name, meant_by(name)) for name in amounts):
            if meant:
                self.warnings.append(f"{key}: {not_usual(name, meant)}")
        return tuple(sorted(amounts.items()))

    def _bad(self, key: str, text: str, why: str, instead: object) -> None:
        self.warnings.append(f"{key}: '{text}' {why}; taken as {instead}")
