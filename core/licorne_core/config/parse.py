"""From the tree of nodes to the schema (spec § 2.1), with the checks of each thing by itself."""

from dataclasses import replace
from functools import partial

from licorne_core.config import keys
from licorne_core.config.caps import ACL_NAMES, MAX_PROPERTIES, MAX_PROPERTY_LENGTH, PARTITIONS, QUEUES
from licorne_core.config.limits import read_limit
from licorne_core.config.properties import QueueSettings, settings_of
from licorne_core.config.reader import Cursor, Fields
from licorne_core.config.report import Report
from licorne_core.config.rules import read_rule
from licorne_core.config.schema import (
    LimitConfig,
    NodeSortPolicy,
    NodeSortType,
    PartitionConfig,
    QueueConfig,
    TemplateConfig,
)
from licorne_core.values.errors import ConfigError, shown
from licorne_core.values.ids import DEFAULT_PARTITION
from licorne_core.values.names import (
    INVALID_QUEUE_NAME,
    RECOVERY_NAME,
    ROOT,
    Acl,
    Pattern,
    found,
    is_partition_name,
    is_queue_name,
    without_blanks_at_commas,
)
from licorne_core.values.resources import Resources, is_zero

NOT_SET = "scheduler config is not set"
MAX_WEIGHT = 1e9

_CHECKSUM = Pattern("[0-9a-fA-F]{64}")

_QUEUE_KEYS = keys.QUEUE.names
_RESOURCE_KEYS = keys.RESOURCES.names
_PROPERTIES = keys.PROPERTIES.names
_Queue = tuple[Cursor, Fields]


def read_partitions(document: Cursor) -> tuple[PartitionConfig, ...]:
    """The partitions of the document. Two names that differ in case only are a problem."""
    report = document.report
    fields = document.fields(*keys.DOCUMENT.names)
    _check_checksum(fields)
    cursors = fields.items("partitions")
    if not (cursors or report.is_faulty("") or report.is_faulty("partitions")):
        report.problem(NOT_SET, "partitions")
    partitions: dict[str, PartitionConfig] = {}
    for cursor in cursors:
        report.count(PARTITIONS, cursor.path)
        partition = _partition(cursor)
        # Requests find a partition in any case of letters.
        key = partition.name.lower()
        if key in partitions:
            message = f"duplicate partition name found with name {partition.name}"
            report.problem(message, f"{cursor.path}.name")
        partitions[key] = partition
    return tuple(partitions.values())


def _check_checksum(document: Fields) -> None:
    """Warn of a checksum that is none: only 64 hex digits are left out of the sum (§ 2.1.4)."""
    text, path, report = document.text("checksum"), document.path("checksum"), document.owner.report
    if not document.has("checksum") or report.is_faulty(path):
        return
    if not _CHECKSUM.matches(text):
        message = f"'{shown(text)}' is not 64 hex digits and counts as part of the text"
        report.warn(message, path)


def _partition(cursor: Cursor) -> PartitionConfig:
    fields = cursor.fields(*keys.PARTITION.names)
    preemption = fields.fields("preemption", *keys.PREEMPTION.names)
    return PartitionConfig(
        name=_partition_name(fields),
        root=_root(fields, tuple(read_limit(limit) for limit in fields.items("limits"))),
        placement_rules=tuple(read_rule(rule) for rule in fields.items("placementrules")),
        preemption_enabled=preemption.flag("enabled", default=True),
        quota_preemption_enabled=preemption.flag("quotapreemptionenabled"),
        node_sort=_node_sort(fields),
        user_group_resolver=_resolver(fields),
        place=cursor.place,
    )


def _partition_name(fields: Fields) -> str:
    name = fields.text("name")
    if name == "" or name.lower() == DEFAULT_PARTITION:
        return DEFAULT_PARTITION
    if not is_partition_name(name):
        message = (
            f"invalid partition name '{name}', max 64 characters consisting of alphanumeric "
            "characters and '-', '_', '.', '#', '@', ':' allowed"
        )
        fields.owner.report.problem(message, fields.path("name"))
    return name


def _resolver(fields: Fields) -> str:
    resolver = fields.fields("usergroupresolver", *keys.RESOLVER.names)
    kind = resolver.text("type").lower()
    if kind and kind not in keys.RESOLVERS:
        message = f"unknown user group resolver '{kind}', expected os, ldap or test"
        resolver.owner.report.problem(message, resolver.path("type"))
    return kind


def _node_sort(fields: Fields) -> NodeSortPolicy:
    """A mapping, or just the name of the policy (spec § 2.9 row 1)."""
    cursor = fields.entries.get("nodesortpolicy")
    if cursor is None:
        return NodeSortPolicy()
    if cursor.is_scalar:
        kind = _node_sort_type(cursor.text(), cursor.path, cursor.report)
        _check_attribute(kind, "", cursor.path, cursor.report)
        return NodeSortPolicy(type=kind)
    policy = cursor.fields(*keys.NODE_SORT.names)
    kind = _node_sort_type(policy.text("type"), policy.path("type"), cursor.report)
    attribute = policy.text("attribute")
    if not any(cursor.report.is_faulty(policy.path(key)) for key in ("type", "attribute")):
        _check_attribute(kind, attribute, policy.path("attribute"), cursor.report)
    weights = {}
    for name, entry in policy.children("resourceweights").items():
        weights[name] = entry.number()
        entry.warn_of_resource(name)
        if weights[name] < 0:
            message = f"negative resource weight for {name} is not allowed"
            cursor.report.problem(message, entry.path)
        elif weights[name] > MAX_WEIGHT:
            message = f"resource weight for {name} is larger than {MAX_WEIGHT:.0e}"
            cursor.report.problem(message, entry.path)
    policy_of = partial(NodeSortPolicy, type=kind, attribute=attribute)
    return policy_of(weights=weights) if weights else policy_of()


def _node_sort_type(text: str, path: str, report: Report) -> NodeSortType:
    for known in NodeSortType:
        if known.value == text:
            return known
    if text:
        report.problem(f"undefined policy: {text}", path)
    return NodeSortType.FAIR


def _check_attribute(kind: NodeSortType, attribute: str, path: str, report: Report) -> None:
    if kind is NodeSortType.SPREAD:
        if not attribute:
            report.problem("node sort policy spread needs an attribute", path)
    elif attribute:
        message = f"node sort policy {kind.value} has no attribute, found '{shown(attribute)}'"
        report.problem(message, path)


def _root(partition: Fields, limits: tuple[LimitConfig, ...]) -> QueueConfig:
    """The queue called root, given or inserted, with the partition's limits (spec § 2.1.5)."""
    cursors = partition.items("queues")
    report = partition.owner.report
    path = partition.path("queues")
    if not cursors and not report.is_faulty(path):
        report.problem("queue config is not set", path)
    top = [(cursor, cursor.fields(*_QUEUE_KEYS)) for cursor in cursors]
    if len(top) == 1 and top[0][1].text("name").lower() == ROOT:
        root = _queue(*top[0], level=0)
        if limits and root.limits and limits != root.limits:
            message = "partition limits and root queue limits are not equivalent"
            report.problem(message, partition.path("limits"))
        return replace(root, limits=root.limits or limits)
    _warn_beside_root(top)
    report.count(QUEUES, path)
    return QueueConfig(
        name=ROOT,
        parent=True,
        limits=limits,
        queues=_siblings(top, level=1),
        place=report.place(path),
    )


def _warn_beside_root(top: list[_Queue]) -> None:
    """Warn of siblings of a queue called root, which then is no root of the tree (§ 2.1.5)."""
    others = [queue for queue in top if queue[1].text("name").lower() != ROOT]
    if not others or len(others) == len(top):
        return
    cursor, fields = others[0]
    name = shown(fields.text("name"))
    message = (
        f"queue '{name}' stands beside root, so that another root is put above both: they are "
        f"root.{name} and root.root; put '{name}' into the queues of root"
    )
    cursor.report.warn(message, fields.path("name"))


def _siblings(queues: list[_Queue], level: int) -> tuple[QueueConfig, ...]:
    """Children of one queue; root's level is 1."""
    seen: set[str] = set()
    for cursor, fields in queues:
        name, path = fields.text("name"), fields.path("name")
        if cursor.report.is_faulty(path):
            continue
        if not is_queue_name(name):
            end = found(name if fields.has("name") else None)
            cursor.report.problem(f"{INVALID_QUEUE_NAME}, {end}", path)
        elif level == 1 and name.lower() == RECOVERY_NAME:
            cursor.report.problem(f"queue name '{name}' is kept for recovery", path)
        elif name.lower() in seen:
            message = f"duplicate child name found with name '{name}', level {level}"
            cursor.report.problem(message, path)
        seen.add(name.lower())
    return tuple(_queue(cursor, fields, level) for cursor, fields in queues)


def _queue(cursor: Cursor, fields: Fields, level: int) -> QueueConfig:
    """Read a queue; level 0 is root."""
    cursor.report.count(QUEUES, cursor.path)
    below = [(child, child.fields(*_QUEUE_KEYS)) for child in fields.items("queues")]
    if below and fields.has("parent") and not fields.flag("parent"):
        message = "a queue with child queues is a parent, whatever 'parent: false' says"
        cursor.report.warn(message, fields.path("parent"))
    guaranteed, maximum = _resources(fields, is_root=level == 0)
    return QueueConfig(
        name=fields.text("name").lower(),
        parent=bool(below) or fields.flag("parent") or level == 0,
        guaranteed=guaranteed,
        max=maximum,
        max_applications=fields.count("maxapplications"),
        properties=_properties(fields)[0],
        admin_acl=_acl(fields, "adminacl"),
        submit_acl=_acl(fields, "submitacl"),
        child_template=_template(fields),
        limits=tuple(read_limit(limit) for limit in fields.items("limits")),
        queues=_siblings(below, level + 1),
        place=cursor.place,
    )


def _resources(queue: Fields, *, is_root: bool) -> tuple[Resources | None, Resources | None]:
    """Guaranteed and maximum; root may have neither, not even an empty one."""
    fields = queue.fields("resources", *_RESOURCE_KEYS)
    if is_root:
        if fields.has("guaranteed") or fields.has("max"):
            message = "root queue must not have resource limits set"
            fields.owner.report.problem(message, fields.owner.path)
        return None, None
    return fields.resources("guaranteed"), fields.resources("max")


def _properties(fields: Fields) -> tuple[dict[str, str], QueueSettings]:
    """Free keys and values, and their settings.

    An invalid value gives a warning, and so does a key that is much like a known one.
    """
    report, path = fields.owner.report, fields.path("properties")
    properties = fields.mapping("properties")
    report.check("properties", len(properties), MAX_PROPERTIES, path)
    for key, text in properties.items():
        what = f"characters in property {shown(key)}"
        report.check(what, len(text), MAX_PROPERTY_LENGTH, f"{path}.{key}")
        hint = "" if key in _PROPERTIES else report.hint(key, _PROPERTIES)
        if hint:
            report.warn(f"property {shown(key)} means nothing{hint}", f"{path}.{key}")
    warnings: list[str] = []
    settings = settings_of(properties, warnings)
    for warning in warnings:
        report.warn(warning, path)
    return properties, settings


def _acl(fields: Fields, key: str) -> Acl:
    report, path = fields.owner.report, fields.path(key)
    dropped: list[str] = []
    text = fields.text(key)
    if text:
        report.count(ACL_NAMES, path, 1 + text.count(",") + text.strip().count(" "))
    joined = without_blanks_at_commas(text)
    try:
        acl = Acl.parse(text, dropped)
    except ConfigError as error:
        hint = f", did you mean '{joined}'?" if joined != text else ""
        report.problem(f"{error.problems[0].message}{hint}", path)
        return Acl.nobody()
    if joined != text and acl.groups:
        users, groups = ",".join(sorted(acl.users)), ",".join(sorted(acl.groups))
        message = (
            f"'{shown(text)}' means users '{shown(users)}' and groups '{shown(groups)}', as groups "
            f"stand behind a blank; write '{shown(joined)}' if all of them are users"
        )
        report.warn(message, path)
    for name in dropped:
        report.warn(f"'{name}' can be no user's or group's name and is ignored", path)
    return acl


def _template(queue: Fields) -> TemplateConfig | None:
    """The child template; None for one that sets nothing.

    A guarantee of nothing but zeros sets nothing. A maximum of zeros forbids those types.
    """
    if not queue.has("childtemplate"):
        return None
    fields = queue.fields("childtemplate", *keys.TEMPLATE.names)
    resources = fields.fields("resources", *keys.TEMPLATE_RESOURCES.names)
    guaranteed = resources.resources("guaranteed")
    properties, settings = _properties(fields)
    template = TemplateConfig(
        max_applications=fields.count("maxapplications"),
        properties=properties,
        settings=settings,
        guaranteed=None if guaranteed is None or is_zero(guaranteed) else guaranteed,
        max=resources.resources("max"),
    )
    return None if template == TemplateConfig() else template
