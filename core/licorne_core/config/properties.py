"""Queue properties and the settings that they mean (spec § 2.4). Other properties are free for any use."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from enum import Enum
from typing import Any, NamedTuple

from licorne_core.config.caps import MAX_AMOUNTS
from licorne_core.config.extra import parse_duration
from licorne_core.config.keys import Key, Kind, section
from licorne_core.config.report import meant_by, not_usual
from licorne_core.config.schema import AppSortPolicy, Backfill, PreemptionPolicy, QueueSettings, VictimOrder
from licorne_core.values.errors import ConfigError, shown
from licorne_core.values.names import Pattern
from licorne_core.values.ranking import INT32_MAX, INT32_MIN
from licorne_core.values.resources import Items, parse_quantity
from licorne_core.values.tags import MAX_LEVEL_NAME

APP_SORT_POLICY = "application.sort.policy"
APP_SORT_PRIORITY = "application.sort.priority"
BACKOFF_THRESHOLD = "application.unschedasks.backoff"
BACKOFF_DELAY = "application.unschedasks.backoff.delay"
PRIORITY_POLICY = "priority.policy"
PRIORITY_OFFSET = "priority.offset"
PREEMPTION_POLICY = "preemption.policy"
PREEMPTION_DELAY = "preemption.delay"
PREEMPTION_MINIMUM_RUNTIME = "preemption.minimum.runtime"
PREEMPTION_NOTICE = "preemption.notice"
PREEMPTION_LOSS_LIMIT = "preemption.loss.limit"
PREEMPTION_VICTIM_ORDER = "preemption.victim.order"
QUOTA_PREEMPTION_DELAY = "quota.preemption.delay"
RESERVATION_MAX_NODES = "reservation.max.nodes"
APP_RESERVATION_MAX_NODES = "application.reservation.max.nodes"

_UINT64_MAX = 2**64 - 1
_INTEGER = Pattern("[+-]?[0-9]{1,20}")
_STANDARD = QueueSettings()


class _UnusableError(Exception):
    """A value cannot be understood; the text says why."""


@dataclass(frozen=True, slots=True)
class _Form:
    """Form of a value: reader of its text, and writer of a setting, which is empty for none.

    `nothing` is a setting without a text, as a warning names it.
    """

    kind: Kind
    read: Callable[[str], Any]
    write: Callable[[Any], str]
    choices: tuple[str, ...] = ()
    allowed: str = ""
    nothing: str = "none"


def _one_of(words: Mapping[str, Any]) -> _Form:
    """One of a few words, in any case of letters."""

    def read(text: str) -> Any:
        word = text.strip().lower()
        if word not in words:
            raise _UnusableError(f"is none of {', '.join(words)}")
        return words[word]

    written = {value: word for word, value in words.items()}
    return _Form(Kind.WORD, read, written.__getitem__, choices=tuple(words))


def _member_of(enumeration: type[Enum]) -> _Form:
    return _one_of({str(member.value): member for member in enumeration})


def _whole(low: int, high: int) -> _Form:
    """A whole number between the two."""

    def read(text: str) -> int:
        if _INTEGER.matches(text) and low <= int(text) <= high:
            return int(text)
        raise _UnusableError(f"is no whole number from {low} to {high}")

    return _Form(
        Kind.INTEGER, read, lambda number: "" if number is None else str(number), allowed=f"{low} to {high}"
    )


def _read_delay(text: str) -> float:
    seconds = parse_duration(text)
    if seconds is None or seconds <= 0:
        raise _UnusableError("is no duration above zero, such as 30s")
    return seconds


def _read_wait(text: str) -> float:
    seconds = parse_duration(text)
    if seconds is None or seconds < 0:
        raise _UnusableError("is no duration from zero up, such as 10m")
    return seconds


def _read_amounts(text: str) -> Items:
    """Quantities of resources, such as ``vcore=10,memory=4Gi``, by name."""
    number = text.count(",") + 1
    if number > MAX_AMOUNTS:
        raise _UnusableError(f"has {number} amounts, at most {MAX_AMOUNTS} are allowed")
    parts = [part.partition("=") for part in text.split(",")]
    try:
        amounts = {name.strip(): parse_quantity(name.strip(), amount) for name, _, amount in parts}
    except ConfigError:
        amounts = {}
    if "" in amounts or len(amounts) < len(parts):
        raise _UnusableError("is no list of amounts, such as vcore=10,memory=4Gi")
    return tuple(sorted(amounts.items()))


MAX_LEVELS = 8
"""Most levels of topology domains."""


def _read_levels(text: str) -> tuple[str, ...]:
    """Different names of node attributes, such as ``zone,rack``."""
    names = tuple(name.strip() for name in text.split(",", MAX_LEVELS))
    usable = all(0 < len(name) <= MAX_LEVEL_NAME and not set(name) & set("=, ") for name in names)
    if not usable or len(names) > MAX_LEVELS or len(set(names)) < len(names):
        raise _UnusableError(f"is no list of at most {MAX_LEVELS} different node attributes")
    return names


_LEVELS = _Form(Kind.NAME_LIST, _read_levels, ",".join)
_FLAG = replace(_one_of({"true": True, "false": False}), kind=Kind.FLAG, choices=())
_DELAY = _Form(Kind.DURATION, _read_delay, lambda seconds: f"{seconds:g}s" if seconds else "", nothing="0s")
_WAIT = _Form(Kind.DURATION, _read_wait, lambda seconds: f"{seconds:g}s")
_AMOUNTS = _Form(Kind.AMOUNT_LIST, _read_amounts, lambda _: "")


class _Property(NamedTuple):
    """A property: its description, the setting that it gives, and the form of its value."""

    key: Key
    setting: str
    form: _Form


def _property(name: str, setting: str, form: _Form, what: str, spec: str, where: str = "leaf") -> _Property:
    default = form.write(getattr(_STANDARD, setting))
    key = Key(name, form.kind, what, spec, default, form.choices, form.allowed, where=where)
    return _Property(key, setting, form)


_NOT_INHERITED = "any; not inherited"
_PROPERTIES = (
    _property(
        APP_SORT_POLICY,
        "app_sort",
        _member_of(AppSortPolicy),
        "the order of applications: first come; least usage first; or first come, with new "
        "applications starting one at a time. Children of a parent are always ordered fairly",
        "5.2",
    ),
    _property(
        APP_SORT_PRIORITY,
        "priority_sort",
        _one_of({"enabled": True, "disabled": False}),
        "`enabled`: priority first; `disabled`: priority only breaks ties",
        "2.4",
        "any",
    ),
    _property(
        PRIORITY_OFFSET,
        "priority_offset",
        _whole(INT32_MIN, INT32_MAX),
        "added to the priority that the parent sees",
        "4.11",
        _NOT_INHERITED,
    ),
    _property(
        PRIORITY_POLICY,
        "priority_fence",
        _one_of({"default": False, "fence": True}),
        "`fence`: the parent sees only the offset",
        "4.11",
        _NOT_INHERITED,
    ),
    _property(
        BACKOFF_THRESHOLD,
        "backoff_threshold",
        _whole(0, _UINT64_MAX),
        "an application backs off after so many asks in a row without a fitting node; 0 is off",
        "8.3",
    ),
    _property(BACKOFF_DELAY, "backoff_delay", _DELAY, "how long it backs off", "8.3"),
    _property(
        PREEMPTION_POLICY,
        "preemption",
        _member_of(PreemptionPolicy),
        "`fence`: asks inside have nobody outside stopped; `disabled`: nobody inside is "
        "stopped, but for asks that require their node and for a lowered maximum",
        "2.4",
        "any; only `disabled` is inherited",
    ),
    _property(
        PREEMPTION_DELAY,
        "preemption_delay",
        _DELAY,
        "how long an ask waits before it has others stopped",
        "2.4",
    ),
    _property(
        PREEMPTION_MINIMUM_RUNTIME,
        "preemption_minimum_runtime",
        _DELAY,
        "an allocation is no victim before it has run so long, but for asks that require their "
        "node; none is off",
        "9",
    ),
    _property(
        PREEMPTION_NOTICE,
        "preemption_notice",
        _DELAY,
        "how long before an allocation of the queue is stopped for others its RM is told; meanwhile the "
        "RM may say that it is ready, and the allocation goes on if nobody needs its room any more. "
        "Placeholders have no notice; none is off",
        "9",
    ),
    _property(
        PREEMPTION_LOSS_LIMIT,
        "preemption_loss_limit",
        _AMOUNTS,
        "what may be lost to preemption in an hour, as resources times seconds: "
        "`vcore=3600,memory=7200Gi`. What a checkpoint keeps is not lost. Asks that require their node "
        "disregard the limit; none is off",
        "9",
    ),
    _property(
        PREEMPTION_VICTIM_ORDER,
        "preemption_victim_order",
        _member_of(VictimOrder),
        "which victims the asks of the queue take first: `age` the youngest; `cost` the lowest "
        "priority, then the least cost times seconds of lost work",
        "9",
    ),
    _property(
        QUOTA_PREEMPTION_DELAY,
        "quota_preemption_delay",
        _DELAY,
        "how long after `max` was lowered the queue loses what it has above it; none is off",
        "9.6",
        "managed",
    ),
    _property(
        RESERVATION_MAX_NODES,
        "reserved_nodes",
        _whole(0, INT32_MAX),
        "how many nodes may be reserved at a time for asks in the queue and below; asks that "
        "require their node do not count. Without it root has a tenth of the nodes, and one in "
        "any case",
        "8.5",
        "any",
    ),
    _property(
        APP_RESERVATION_MAX_NODES,
        "app_reserved_nodes",
        _whole(0, INT32_MAX),
        "the same for each application of the leaf; without it half of what root may have",
        "8.5",
    ),
    _property(
        "reservation.exclusive",
        "reservation_exclusive",
        _FLAG,
        "true: a reserved node takes no other asks at all; false: it takes those that leave "
        "the reserved amounts free",
        "8.4",
    ),
    _property(
        "reservation.idle.timeout",
        "reservation_idle_timeout",
        _DELAY,
        "how long a node stays reserved for an ask that a maximum, a limit or the RM stops",
        "8.6",
    ),
    _property(
        "backfill",
        "backfill",
        _member_of(Backfill),
        "`easy`: the first blocked ask holds a shadow start, and others pass it if they end before, "
        "or take nothing that it needs; `conservative`: the first few blocked asks do",
        "8.5",
        "root",
    ),
    _property(
        "reserve.after",
        "reserve_after",
        _WAIT,
        "how long an ask waits before it may hold a shadow start",
        "8.5",
    ),
    _property(
        "topology.levels",
        "topology_levels",
        _LEVELS,
        "names of the node attributes that name topology domains, the widest first: `zone,rack,nvlink`. "
        "None is off: tags about topology are refused",
        "6",
        "root",
    ),
    _property(
        "topology.swap-seconds",
        "swap_seconds",
        _whole(0, 86_400),
        "for how many seconds the place of a gang member is kept that was lost with its node",
        "6",
    ),
)

PROPERTIES = section(*(each.key for each in _PROPERTIES))
"""The properties with a meaning for the core."""


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
    if that is given.
    """
    found: dict[str, Any] = {}
    doubts: list[str] = []
    for key, setting, form in _PROPERTIES:
        text = properties.get(key.name)
        if text is None:
            continue
        try:
            value = found[setting] = form.read(text)
        except _UnusableError as why:
            doubts.append(f"{key.name}: '{shown(text)}' {why}; taken as {key.default or form.nothing}")
            continue
        if form is _AMOUNTS:
            meant = ((name, meant_by(name)) for name, _ in value)
            doubts += [f"{key.name}: {not_usual(name, usual)}" for name, usual in meant if usual]
    if warnings is not None:
        warnings += doubts
    return QueueSettings(**found) if found else _STANDARD
