"""Queue properties, and the settings for which they stand (spec § 2.4). Other properties are for any use."""

from collections.abc import Iterator, Mapping
from itertools import chain
from typing import Any

from licorne_core.config.forms import (
    AMOUNTS,
    DELAY,
    FLAG,
    NOT_INHERITED,
    Family,
    Form,
    Property,
    UnusableError,
    member_of,
    one_of,
    whole,
)
from licorne_core.config.kinds import Key, section
from licorne_core.config.report import meant_by, not_usual
from licorne_core.config.schema import (
    AppSortPolicy,
    PartitionConfig,
    PreemptionPolicy,
    QueueSettings,
    VictimOrder,
)
from licorne_core.features import modules
from licorne_core.values.errors import shown
from licorne_core.values.ranking import INT32_MAX, INT32_MIN

APP_SORT_POLICY = "application.sort.policy"
APP_SORT_PRIORITY = "application.sort.priority"
PRIORITY_POLICY = "priority.policy"
PRIORITY_OFFSET = "priority.offset"
PREEMPTION_POLICY = "preemption.policy"
PREEMPTION_DELAY = "preemption.delay"
PREEMPTION_MINIMUM_RUNTIME = "preemption.minimum.runtime"
PREEMPTION_LOSS_LIMIT = "preemption.loss.limit"
PREEMPTION_VICTIM_ORDER = "preemption.victim.order"
RESERVATION_MAX_NODES = "reservation.max.nodes"
APP_RESERVATION_MAX_NODES = "application.reservation.max.nodes"

_STANDARD = QueueSettings()


def _property(name: str, setting: str, form: Form, what: str, spec: str, where: str = "leaf") -> Property:
    default = form.write(getattr(_STANDARD, setting))
    key = Key(name, form.kind, what, spec, default, form.choices, form.allowed, where=where)
    return Property(key, setting, form)


def _of_features(table: str) -> Iterator[Any]:
    """Concatenate one table of all features' keys."""
    for _, module in modules("keys"):
        yield from getattr(module, table, ())


def _words(property_name: str) -> dict[str, Any]:
    """Words that features add for a property, with their settings."""
    return {word: value for name, word, value in _of_features("WORDS") if name == property_name}


_PROPERTIES = (
    _property(
        APP_SORT_POLICY,
        "app_sort",
        one_of({policy.value: policy for policy in AppSortPolicy} | _words(APP_SORT_POLICY)),
        "the order of applications: first come; the user with the least share first, and of a user the "
        "application with the least usage; first come, with new applications starting one at a time; or "
        "first come, and nothing passes the first. Children of a parent are always ordered fairly",
        "5.2",
    ),
    _property(
        APP_SORT_PRIORITY,
        "priority_sort",
        one_of({"enabled": True, "disabled": False}),
        "`enabled`: priority first; `disabled`: priority only breaks ties",
        "2.4",
        "any",
    ),
    _property(
        PRIORITY_OFFSET,
        "priority_offset",
        whole(INT32_MIN, INT32_MAX),
        "added to the priority that the parent sees",
        "4.11",
        NOT_INHERITED,
    ),
    _property(
        PRIORITY_POLICY,
        "priority_fence",
        one_of({"default": False, "fence": True}),
        "`fence`: the parent sees only the offset",
        "4.11",
        NOT_INHERITED,
    ),
    _property(
        PREEMPTION_POLICY,
        "preemption",
        member_of(PreemptionPolicy),
        "`fence`: asks inside stop no allocation outside; `disabled`: no allocation inside is "
        "stopped, except for asks that require their node and for a lowered maximum",
        "2.4",
        "any; only `disabled` is inherited",
    ),
    _property(
        PREEMPTION_DELAY,
        "preemption_delay",
        DELAY,
        "the time that an ask waits before it preempts",
        "2.4",
    ),
    _property(
        PREEMPTION_MINIMUM_RUNTIME,
        "preemption_minimum_runtime",
        DELAY,
        "the runtime before which an allocation is no victim, except for asks that require their "
        "node; off by default",
        "9",
    ),
    _property(
        PREEMPTION_LOSS_LIMIT,
        "preemption_loss_limit",
        AMOUNTS,
        "the maximum loss to preemption in an hour, as resources times seconds: "
        "`vcore=3600,memory=7200Gi`. Work that a checkpoint keeps is not lost. Asks that require their node "
        "disregard the limit; off by default",
        "9",
    ),
    _property(
        PREEMPTION_VICTIM_ORDER,
        "preemption_victim_order",
        member_of(VictimOrder),
        "the order in which asks of the queue choose victims: `age` the youngest first; `cost` the lowest "
        "priority first, then the least lost work in sum",
        "9",
    ),
    _property(
        RESERVATION_MAX_NODES,
        "reserved_nodes",
        whole(0, INT32_MAX),
        "the maximum number of nodes reserved at a time for asks in the queue and below; asks that "
        "require their node do not count. Without it root may have a tenth of the nodes, at least one",
        "8.5",
        "any",
    ),
    _property(
        APP_RESERVATION_MAX_NODES,
        "app_reserved_nodes",
        whole(0, INT32_MAX),
        "the same for each application of the leaf; without it half of the number for root",
        "8.5",
    ),
    _property(
        "reservation.exclusive",
        "reservation_exclusive",
        FLAG,
        "true: a reserved node accepts no other asks at all; false: it accepts those that leave "
        "the reserved amounts free",
        "8.4",
    ),
    _property(
        "reservation.idle.timeout",
        "reservation_idle_timeout",
        DELAY,
        "the time for which a node stays reserved for an ask that a maximum, a limit or the RM stops",
        "8.6",
    ),
)
OF_FEATURES: tuple[Property, ...] = tuple(_of_features("PROPERTIES"))
_FAMILIES: tuple[Family, ...] = tuple(_of_features("FAMILIES"))
_ALONE = {each.key.name for each in OF_FEATURES if each.key.where == NOT_INHERITED}
_FAMILIES_ALONE = tuple(each for each in _FAMILIES if each.key.where == NOT_INHERITED)
_EXTENDED = {each.setting: each.standard for each in OF_FEATURES}
_PLACES = {each.key.name: [each] for each in _PROPERTIES}
for _each in OF_FEATURES:
    _PLACES.setdefault(_each.after or _each.key.name, []).append(_each)
_IN_PLACE = tuple(chain.from_iterable(_PLACES.values()))

PROPERTIES = section(*(each.key for each in _IN_PLACE), *(each.key for each in _FAMILIES))
"""The properties that the core uses."""


def merge_properties(parent: Mapping[str, str], own: Mapping[str, str]) -> dict[str, str]:
    """The properties of a managed queue: its parent's merged ones, overridden by its own.

    Priority policy and offset have their defaults in every queue, and of preemption policies only
    ``disabled`` is inherited. Properties of features may be restricted to one queue.
    """
    merged = {key: text for key, text in parent.items() if not _is_of_one_queue(key)}
    for key, fresh in ((PRIORITY_POLICY, "default"), (PRIORITY_OFFSET, "0")):
        if key in merged:
            merged[key] = fresh
    inherited = merged.get(PREEMPTION_POLICY)
    if inherited is not None and inherited.strip().lower() != PreemptionPolicy.DISABLED.value:
        merged[PREEMPTION_POLICY] = PreemptionPolicy.DEFAULT.value
    return {**merged, **own}


def idle_properties(partition: PartitionConfig) -> Iterator[str]:
    """Notes on properties without an effect: they need another property or switch, or count only at root."""
    queues, below, settings = [("queue root", partition.root)], dict[str, str](), list[QueueSettings]()
    for place, queue in queues:
        queues += [(f"{place}.{child.name}", child) for child in queue.queues]
        below |= dict.fromkeys(queue.properties if queue is not partition.root else (), place)
        settings.append(queue.settings)
        if queue.child_template is not None:
            below |= dict.fromkeys(queue.child_template.properties, f"the template of {place}")
            settings.append(settings_of(queue.child_template.properties))
    switched = {name for name, is_on in partition.switches.items() if is_on}
    for each in OF_FEATURES:
        # Only at root does a property of root have an effect.
        if any(one.of(each.setting) for one in settings[: 1 if each.key.where == "root" else None]):
            switched.add(each.key.name)
    for each in OF_FEATURES:
        name, is_below = each.key.name, each.key.name in below
        if each.key.where == "root" and is_below:
            yield f"{name} of {below[name]} has no effect below root"
        if each.needs and (is_below or name in partition.root.properties) and each.needs not in switched:
            yield f"{name} has no effect without {each.needs}"


def settings_of(properties: Mapping[str, str], doubts: list[tuple[str, str]] | None = None) -> QueueSettings:
    """Settings from the merged properties.

    A bad value counts as not given and is never an error; its key and a warning are added to `doubts`.
    """
    doubts = [] if doubts is None else doubts
    found = _read(properties, doubts)
    given = [
        (name, value)
        for name, standard in _EXTENDED.items()
        if (value := found.pop(name, standard)) != standard
    ]
    given += [(each.setting, some) for each in _FAMILIES if (some := _members(each, properties, doubts))]
    if given:
        found["extended"] = tuple(given)
    return QueueSettings(**found) if found else _STANDARD


def _read(properties: Mapping[str, str], doubts: list[tuple[str, str]]) -> dict[str, Any]:
    """The settings of the properties; an invalid value gives no setting, and one of `doubts`."""
    found: dict[str, Any] = {}
    for key, setting, form, *_ in _IN_PLACE:
        text = properties.get(key.name)
        if text is None:
            continue
        try:
            value = found[setting] = form.read(text)
        except UnusableError as why:
            doubts.append((key.name, f"'{shown(text)}' {why}; taken as {key.default or form.nothing}"))
            continue
        if form is AMOUNTS:
            meant = ((name, meant_by(name)) for name, _ in value)
            doubts += [(key.name, not_usual(name, usual)) for name, usual in meant if usual]
    return found


def _is_of_one_queue(key: str) -> bool:
    return key in _ALONE or any(family.name_in(key) for family in _FAMILIES_ALONE)


def _members(family: Family, properties: Mapping[str, str], doubts: list[tuple[str, str]]) -> tuple[Any, ...]:
    """Settings of the members of a family, in the order of their keys."""
    found = []
    for key in sorted(properties):
        name = family.name_in(key)
        if not name:
            continue
        try:
            found.append(family.read(name, properties[key]))
        except UnusableError as why:
            doubts.append((key, f"'{shown(properties[key])}' {why}; taken as none"))
            continue
        usual = meant_by(name)
        if usual:
            doubts.append((key, not_usual(name, usual)))
    return tuple(found)
