"""Reads the tree of nodes into the schema (spec § 2.1), with the checks that need only one value."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial

from licorne_core.config import keys
from licorne_core.config.caps import (
    ACL_NAMES,
    LIMIT_NAMES,
    LIMITS,
    MAX_PROPERTIES,
    MAX_PROPERTY_LENGTH,
    PARTITIONS,
    QUEUES,
)
from licorne_core.config.kinds import Key, words
from licorne_core.config.properties import PROPERTIES, settings_of
from licorne_core.config.reader import Cursor, Fields
from licorne_core.config.rules import read_rule
from licorne_core.config.schema import (
    LimitConfig,
    NodeSortPolicy,
    NodeSortType,
    PartitionConfig,
    QueueConfig,
    QueueSettings,
    TemplateConfig,
)
from licorne_core.values.errors import ConfigError, shown
from licorne_core.values.ids import DEFAULT_PARTITION
from licorne_core.values.names import (
    INVALID_QUEUE_NAME,
    RECOVERY_NAME,
    ROOT,
    WILDCARD,
    Acl,
    Pattern,
    found,
    is_group_name,
    is_partition_name,
    is_queue_name,
    is_user_name,
    without_blanks_at_commas,
)
from licorne_core.values.resources import Resources, is_zero

NOT_SET = "scheduler config is not set"
MAX_WEIGHT = 1e9

_GROUP_WORDS = frozenset(
    ("admins", "department", "dept", "devs", "group", "groups", "grp", "members", "team", "teams", "users")
)
"""Parts of names that are common for groups, and rare for users."""
_BETWEEN_PARTS = str.maketrans("-_.", "   ")

_CHECKSUM = Pattern("[0-9a-fA-F]{64}")

_Queue = tuple[Cursor, Fields]


def read_partitions(document: Cursor) -> tuple[PartitionConfig, ...]:
    """The partitions of the document. Names that differ only in case are a problem."""
    fields = document.fields(keys.DOCUMENT)
    _check_checksum(_noted(fields, keys.DOCUMENT["checksum"]))
    listed = fields["partitions"]
    cursors = listed.items()
    if not (cursors or document.is_faulty or listed.is_faulty):
        listed.problem(NOT_SET)
    partitions: dict[str, PartitionConfig] = {}
    for cursor in cursors:
        document.report.count(PARTITIONS, cursor.path)
        partition = _partition(cursor)
        # Requests find a partition in any case of letters.
        key = partition.name.lower()
        if key in partitions:
            message = f"duplicate partition name found with name {partition.name}"
            document.report.problem(message, f"{cursor.path}.name")
        partitions[key] = partition
    return tuple(partitions.values())


def _noted(fields: Fields, key: Key) -> Cursor:
    """The value under a key; if the key is present and has no effect, this is reported as a note."""
    cursor = fields[key.name]
    if cursor.node is not None and not cursor.is_null:
        cursor.report.note(f"{key.name} {key.note}")
    return cursor


def _check_checksum(checksum: Cursor) -> None:
    """Warn about another form of checksum: only 64 hex digits are left out of the hashed text (§ 2.1.4)."""
    text = checksum.text()
    if not (checksum.is_null or checksum.is_faulty or _CHECKSUM.matches(text)):
        checksum.warn(f"'{shown(text)}' is not 64 hex digits and counts as part of the text")


def _partition(cursor: Cursor) -> PartitionConfig:
    fields = cursor.fields(keys.PARTITION)
    preemption = fields["preemption"].fields(keys.PREEMPTION)
    resolver = _noted(fields, keys.PARTITION["usergroupresolver"])
    return PartitionConfig(
        name=_partition_name(fields["name"]),
        root=_root(fields),
        placement_rules=tuple(map(read_rule, fields["placementrules"].items())),
        preemption_enabled=preemption["enabled"].flag(default=True),
        switches={f"preemption.{key.name}": preemption[key.name].flag() for key in keys.SWITCHES},
        node_sort=_node_sort(fields["nodesortpolicy"]),
        user_group_resolver=_resolver(resolver.fields(keys.RESOLVER)["type"]),
        place=cursor.place,
    )


def _partition_name(cursor: Cursor) -> str:
    name = cursor.text()
    if name == "" or name.lower() == DEFAULT_PARTITION:
        return DEFAULT_PARTITION
    if not is_partition_name(name):
        cursor.problem(
            f"invalid partition name '{name}', max 64 characters consisting of alphanumeric "
            "characters and '-', '_', '.', '#', '@', ':' allowed"
        )
    return name


def _resolver(cursor: Cursor) -> str:
    kind = cursor.text().lower()
    if kind and kind not in keys.RESOLVERS:
        cursor.problem(f"unknown user group resolver '{kind}', expected os, ldap or test")
    return kind


def _node_sort(cursor: Cursor) -> NodeSortPolicy:
    """A mapping, or just the name of the policy (spec § 2.9 row 1)."""
    if cursor.is_scalar:
        kind = _node_sort_type(cursor)
        _check_attribute(kind, "", cursor)
        return NodeSortPolicy(type=kind)
    policy = cursor.fields(keys.NODE_SORT)
    kind = _node_sort_type(policy["type"])
    attribute = policy["attribute"].text()
    if not (policy["type"].is_faulty or policy["attribute"].is_faulty):
        _check_attribute(kind, attribute, policy["attribute"])
    weights = {}
    for name, entry in policy["resourceweights"].entries().items():
        weights[name] = entry.number()
        entry.warn_of_resource(name)
        if weights[name] < 0:
            entry.problem(f"negative resource weight for {name} is not allowed")
        elif weights[name] > MAX_WEIGHT:
            entry.problem(f"resource weight for {name} is larger than {MAX_WEIGHT:.0e}")
    policy_of = partial(NodeSortPolicy, type=kind, attribute=attribute)
    return policy_of(weights=weights) if weights else policy_of()


def _node_sort_type(cursor: Cursor) -> NodeSortType:
    text = cursor.text()
    for known in NodeSortType:
        if known.value == text:
            return known
    if text:
        cursor.problem(f"undefined policy: {text}, expected one of {', '.join(words(NodeSortType))}")
    return NodeSortType.AUTO


def _check_attribute(kind: NodeSortType, attribute: str, cursor: Cursor) -> None:
    if kind is NodeSortType.SPREAD:
        if not attribute:
            cursor.problem("node sort policy spread needs an attribute")
    elif attribute:
        cursor.problem(f"node sort policy {kind.value} has no attribute, found '{shown(attribute)}'")


def _root(partition: Fields) -> QueueConfig:
    """The queue called root, given or inserted, with the partition's limits (spec § 2.1.5)."""
    limits = _limits(partition["limits"])
    queues = partition["queues"]
    cursors = queues.items()
    if not (cursors or queues.is_faulty):
        queues.problem("queue config is not set")
    top = [(cursor, cursor.fields(keys.QUEUE)) for cursor in cursors]
    if len(top) == 1 and _name_of(top[0]) == ROOT:
        root = _queue(*top[0], level=0)
        if limits and root.limits and limits != root.limits:
            partition["limits"].problem("partition limits and root queue limits are not equivalent")
        return replace(root, limits=root.limits or limits)
    _warn_beside_root(top)
    queues.report.count(QUEUES, queues.path)
    return QueueConfig(
        name=ROOT, parent=True, limits=limits, queues=_siblings(top, level=1), place=queues.place
    )


def _warn_beside_root(top: list[_Queue]) -> None:
    """Warn of siblings of a queue called root, which then is no root of the tree (§ 2.1.5)."""
    others = [queue for queue in top if _name_of(queue) != ROOT]
    if not others or len(others) == len(top):
        return
    cursor = others[0][1]["name"]
    name = shown(cursor.text())
    cursor.warn(
        f"queue '{name}' stands beside root, so that another root is put above both: they are "
        f"root.{name} and root.root; put '{name}' into the queues of root"
    )


def _name_of(queue: _Queue) -> str:
    return queue[1]["name"].text().lower()


def _siblings(queues: list[_Queue], level: int) -> tuple[QueueConfig, ...]:
    """Children of a queue; `level` is 1 for the children of root."""
    seen: set[str] = set()
    for _, fields in queues:
        cursor = fields["name"]
        name = cursor.text()
        if cursor.is_faulty:
            continue
        if not is_queue_name(name):
            cursor.problem(f"{INVALID_QUEUE_NAME}, {found(None if cursor.is_null else name)}")
        elif level == 1 and name.lower() == RECOVERY_NAME:
            cursor.problem(f"queue name '{name}' is kept for recovery")
        elif name.lower() in seen:
            cursor.problem(f"duplicate child name found with name '{name}', level {level}")
        seen.add(name.lower())
    return tuple(_queue(cursor, fields, level) for cursor, fields in queues)


def _queue(cursor: Cursor, fields: Fields, level: int) -> QueueConfig:
    """Read a queue; root has level 0."""
    cursor.report.count(QUEUES, cursor.path)
    below = [(child, child.fields(keys.QUEUE)) for child in fields["queues"].items()]
    parent = fields["parent"]
    if below and not parent.flag(default=True):
        parent.warn("a queue with child queues is a parent, whatever 'parent: false' says")
    guaranteed, maximum = _resources(fields["resources"], is_root=level == 0)
    return QueueConfig(
        name=fields["name"].text().lower(),
        parent=bool(below) or parent.flag() or level == 0,
        guaranteed=guaranteed,
        max=maximum,
        max_applications=fields["maxapplications"].count(),
        properties=_properties(fields["properties"])[0],
        admin_acl=_acl(_noted(fields, keys.QUEUE["adminacl"])),
        submit_acl=_acl(fields["submitacl"]),
        child_template=_template(fields["childtemplate"]),
        limits=_limits(fields["limits"]),
        queues=_siblings(below, level + 1),
        place=cursor.place,
    )


def _resources(cursor: Cursor, *, is_root: bool) -> tuple[Resources | None, Resources | None]:
    """Guaranteed and maximum; root may have neither, not even an empty one."""
    fields = cursor.fields(keys.RESOURCES)
    if is_root:
        if not (fields["guaranteed"].is_null and fields["max"].is_null):
            cursor.problem("root queue must not have resource limits set")
        return None, None
    return fields["guaranteed"].resources(), fields["max"].resources()


def _properties(cursor: Cursor) -> tuple[dict[str, str], QueueSettings]:
    """Free keys and values, and their settings.

    There is a warning for an invalid value, and for a key that is similar to a known one.
    """
    report, path = cursor.report, cursor.path
    properties = cursor.texts()
    report.check("properties", len(properties), MAX_PROPERTIES, path)
    for key, text in properties.items():
        what = f"characters in property {shown(key)}"
        report.check(what, len(text), MAX_PROPERTY_LENGTH, f"{path}.{key}")
        hint = report.hint(key, PROPERTIES)
        if hint:
            report.warn(f"property {shown(key)} means nothing{hint}", f"{path}.{key}")
    doubts: list[tuple[str, str]] = []
    settings = settings_of(properties, doubts)
    for key, text in doubts:
        report.warn(text, f"{path}.{key}")
    return properties, settings


def _acl(cursor: Cursor) -> Acl:
    text = cursor.text()
    if text:
        names = 1 + text.count(",") + text.strip().count(" ")
        cursor.report.count(ACL_NAMES, cursor.path, names)
    joined = without_blanks_at_commas(text)
    dropped: list[str] = []
    try:
        acl = Acl.parse(text, dropped)
    except ConfigError as error:
        hint = f", did you mean '{joined}'?" if joined != text else ""
        cursor.problem(f"{error.problems[0].message}{hint}")
        return Acl.nobody()
    if joined != text and acl.groups:
        users, groups = ",".join(sorted(acl.users)), ",".join(sorted(acl.groups))
        cursor.warn(
            f"'{shown(text)}' means users '{shown(users)}' and groups '{shown(groups)}', as groups "
            f"stand behind a blank; write '{shown(joined)}' if all of them are users"
        )
    for name in sorted(acl.users) if not acl.groups else ():
        if _GROUP_WORDS & {*name.lower().translate(_BETWEEN_PARTS).split()}:
            cursor.warn(f"'{name}' is a user's name: groups stand behind a blank, as in ' {name}'")
    for name in dropped:
        cursor.warn(f"'{name}' can be no user's or group's name and is ignored")
    return acl


def _template(cursor: Cursor) -> TemplateConfig | None:
    """The child template; None if it sets nothing.

    A guarantee of only zeros sets nothing. A maximum of zeros forbids these types.
    """
    fields = cursor.fields(keys.TEMPLATE)
    resources = fields["resources"].fields(keys.TEMPLATE_RESOURCES)
    guaranteed = resources["guaranteed"].resources()
    properties, settings = _properties(fields["properties"])
    template = TemplateConfig(
        max_applications=fields["maxapplications"].count(),
        properties=properties,
        settings=settings,
        guaranteed=None if guaranteed is None or is_zero(guaranteed) else guaranteed,
        max=resources["max"].resources(),
    )
    return None if template == TemplateConfig() else template


def _limits(cursor: Cursor) -> tuple[LimitConfig, ...]:
    return tuple(map(_limit, cursor.items()))


def _limit(cursor: Cursor) -> LimitConfig:
    cursor.report.count(LIMITS, cursor.path)
    fields = cursor.fields(keys.LIMIT)
    return LimitConfig(
        limit=fields["limit"].text(),
        users=_limit_names(fields["users"], "user", is_user_name),
        groups=_limit_names(fields["groups"], "group", is_group_name),
        max_resources=fields["maxresources"].resources(),
        max_applications=fields["maxapplications"].count(),
        place=cursor.place,
    )


def _limit_names(listed: Cursor, kind: str, allowed: Callable[[str], bool]) -> tuple[str, ...]:
    """The names of a list, each once; a duplicate gives a warning."""
    cursors = listed.items()
    listed.report.count(LIMIT_NAMES, listed.path, len(cursors))
    names: dict[str, None] = {}
    for cursor in cursors:
        name = cursor.text()
        if name != WILDCARD and not allowed(name):
            cursor.problem(f"invalid limit {kind} name '{name}' in limit definition")
        elif name in names:
            cursor.warn(f"{kind} '{name}' is listed twice")
        names[name] = None
    if WILDCARD in names and next(iter(names)) != WILDCARD:
        cursors[-1].problem(f"the wildcard cannot stand beside {kind} names in one limit")
    return tuple(names)
