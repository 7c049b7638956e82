"""Checks across the parts of a partition: sizes, numbers, limits, placement rules (spec §§ 2.5, 2.6)."""

from collections.abc import Iterator, Mapping

from licorne_core.config.report import Report
from licorne_core.config.rules import chain_of, fixed_part
from licorne_core.config.schema import LimitConfig, PartitionConfig, PlacementRuleConfig, QueueConfig
from licorne_core.values.names import ROOT, WILDCARD, Acl
from licorne_core.values.resources import (
    EMPTY,
    Resources,
    add,
    describe,
    fits_max_undefined,
    is_zero,
    min_undefined,
)

_LONE_WILDCARD = (
    "should not specify only one group limit that is using the wildcard. "
    "There must be at least one limit with a group name defined"
)


def check_partition(partition: PartitionConfig, report: Report) -> None:
    """Report every conflict between the parts of one partition."""
    root = partition.root
    for queue in _with_children(root):
        _check_limits(queue, report)
        _check_max_applications(queue, report)
    _check_sizes(root, report, above=EMPTY)
    for kind in ("user", "group"):
        _check_limits_below(root, kind, {}, report)
    _check_placement(partition.placement_rules, root, report)
    _check_access(root, report)


def _check_access(root: QueueConfig, report: Report) -> None:
    """Warn about a tree that nobody may use, and about access lists without an effect."""
    if not any(_opens(queue.submit_acl) or _opens(queue.admin_acl) for queue in _with_children(root)):
        message = "nobody may submit applications: no queue has a submitacl, as '*' for everybody"
        report.warn(message, root.place.path)
    _check_closed(root, "", report)


def _opens(acl: Acl) -> bool:
    return acl.everyone or bool(acl.users or acl.groups)


def _check_closed(queue: QueueConfig, open_above: str, report: Report) -> None:
    """Warn about access lists below an open queue, which have no effect because access is inherited."""
    everybody = queue.submit_acl.everyone or queue.admin_acl.everyone
    if open_above and queue.submit_acl.text and not everybody:
        message = f"closes nothing: everybody may submit below queue {open_above}, which is open"
        report.warn(message, f"{queue.place.path}.submitacl")
    for child in queue.queues:
        _check_closed(child, open_above or (queue.name if everybody else ""), report)


def _with_children(queue: QueueConfig) -> Iterator[QueueConfig]:
    yield queue
    for child in queue.queues:
        yield from _with_children(child)


def _check_sizes(queue: QueueConfig, report: Report, above: Resources) -> Resources:
    """Compare the queue's guaranteed and maximum amounts with each other, its parent's and its children's.

    `above` is the effective maximum of the parent. Returns the queue's part of its parent's guarantee: its
    own guarantee, or, without one, the sum of its children's.
    """
    guaranteed, maximum = queue.guaranteed or EMPTY, queue.max or EMPTY
    effective = min_undefined(maximum, above)
    below: Resources = EMPTY
    for child in queue.queues:
        below = add(below, _check_sizes(child, report, effective))
    children = "sum of guaranteed resources {0} of the children"
    for key, size, bound, message in (
        ("guaranteed", guaranteed, maximum, "guaranteed resource {0} is larger than maximum resource {1}"),
        ("max", maximum, above, "max resource of parent {1} is smaller than maximum resource {0}"),
        ("guaranteed", below, guaranteed, f"guaranteed resource of parent {{1}} is smaller than {children}"),
        ("max", below, effective, f"max resource {{1}} is smaller than {children}"),
    ):
        if not fits_max_undefined(bound, size):
            text = message.format(describe(size), describe(bound))
            report.problem(f"{text} for queue {queue.name}", f"{queue.place.path}.resources.{key}")
    return below if is_zero(guaranteed) else guaranteed


def _check_max_applications(queue: QueueConfig, report: Report) -> None:
    """Check that a queue below one with a maximum of applications has such a maximum, and no larger one."""
    for child in queue.queues:
        path = f"{child.place.path}.maxapplications"
        if not queue.max_applications or report.is_faulty(path):
            continue
        if not child.max_applications:
            message = (
                "maxApplications is either undefined or zero, which is not allowed "
                "when parent queue's maxApplications is defined"
            )
            report.problem(message, path)
        elif child.max_applications > queue.max_applications:
            report.problem("parent maxApplications must be larger than child maxApplications", path)


def _check_placement(rules: tuple[PlacementRuleConfig, ...], root: QueueConfig, report: Report) -> None:
    """Check that fixed rules lead to queues that exist or may be created (spec § 2.5 #15).

    Only the configuration is available here. So a chain is followed from its innermost
    rule, which is directly below root, as far as its rules do not depend on the application.
    """
    known = _by_path(root)
    for number, rule in enumerate(rules):
        chain = chain_of(rule)
        if any(_unread(report, link.place.path, "name", "value", "parent") for link in chain):
            continue
        names = "->".join(link.name for link in chain)
        problem = _problem_of(chain, known)
        if problem:
            report.problem(f"placement rule no. #{number} ({names}) {problem}", rule.place.path)


def _by_path(root: QueueConfig) -> Mapping[str, QueueConfig]:
    known: dict[str, QueueConfig] = {}
    waiting = [(ROOT, root)]
    while waiting:
        path, queue = waiting.pop()
        known[path] = queue
        waiting += [(f"{path}.{child.name}", child) for child in queue.queues]
    return known


def _problem_of(chain: list[PlacementRuleConfig], known: Mapping[str, QueueConfig]) -> str:
    """The error of the chain's fixed part; empty if there is none."""
    path = ROOT
    for link in reversed(chain):
        part = fixed_part(link)
        if part is None:
            break
        path = part.names if part.qualified else f"{path}.{part.names}"
        problem = _reach(path, known, create=link.create, leaf=link is chain[0])
        if problem:
            return problem
    return ""


def _reach(path: str, known: Mapping[str, QueueConfig], *, create: bool, leaf: bool) -> str:
    """Error if the path has no existing or creatable leaf (or parent, if not `leaf`); empty if it has."""
    queue, reached = known[ROOT], ROOT
    for name in path.split(".")[1:]:
        reached = f"{reached}.{name}"
        child = known.get(reached)
        if child is None:
            if not queue.parent:
                return (
                    f"references non-existing queues ({path}) which cannot be created "
                    f"because the last queue ({queue.name}) in the hierarchy is a leaf"
                )
            return "" if create else f"references non-existing queues ({path}) and create is 'false'"
        queue = child
    if leaf and queue.parent:
        return f"references a queue ({path}) which is not a leaf"
    if not leaf and not queue.parent:
        return f"references a queue ({path}) which is a leaf"
    return ""


def _check_limits(queue: QueueConfig, report: Report) -> None:
    """Check the limits of one queue, each by itself and against the queue's maximum."""
    users: set[str] = set()
    groups: set[str] = set()
    for limit in queue.limits:
        path = limit.place.path
        if not (limit.users or limit.groups or _unread(report, path, "users", "groups")):
            message = f"empty user and group lists defined in limit '{limit.limit}'"
            report.problem(message, path)
        _check_names("user", limit.users, users, report, f"{path}.users")
        _check_names("group", limit.groups, groups, report, f"{path}.groups")
        _check_amounts(limit, queue, report)
    if groups == {WILDCARD}:
        wildcard = next(limit for limit in queue.limits if WILDCARD in limit.groups)
        report.problem(_LONE_WILDCARD, f"{wildcard.place.path}.groups")


def _unread(report: Report, path: str, *keys: str) -> bool:
    """True if one of the values has a reported problem, and so must not be compared."""
    return any(report.is_faulty(f"{path}.{key}") for key in keys)


def _check_names(kind: str, names: tuple[str, ...], earlier: set[str], report: Report, path: str) -> None:
    """Check that a queue's limits have every name only once, and no name after the wildcard."""
    for name in names:
        if name in earlier:
            report.problem(f"duplicated {kind} name '{name}', already exists", path)
        elif WILDCARD in earlier:
            message = f"should not set no wildcard {kind} {name} after wildcard {kind} limit"
            report.problem(message, path)
        earlier.add(name)


def _check_amounts(limit: LimitConfig, queue: QueueConfig, report: Report) -> None:
    path = limit.place.path
    amounts = limit.max_resources
    if amounts is not None and is_zero(amounts):
        if not _unread(report, path, "maxresources"):
            message = f"MaxResources should be greater than zero in '{limit.limit}' limit"
            report.problem(message, f"{path}.maxresources")
    elif not (amounts or limit.max_applications or _unread(report, path, "maxresources", "maxapplications")):
        message = f"invalid resource combination for limit {limit.limit} all resource limits are null"
        report.problem(message, path)
    if 0 < queue.max_applications < limit.max_applications:
        message = (
            f"invalid MaxApplications settings for limit {limit.limit} "
            "exceed current the queue MaxApplications"
        )
        report.problem(message, f"{path}.maxapplications")
    if not fits_max_undefined(queue.max or EMPTY, amounts or EMPTY):
        # The misspelling is part of the text that tools of the older core look for.
        message = (
            f"invalid MaxResources settings for limit {limit.limit} exeecd current the queue MaxResources"
        )
        report.problem(message, f"{path}.maxresources")


_Bound = tuple[Resources, int]
"""Limit for a name in the nearest ancestor that has one: resources, and number of applications."""

_UNBOUNDED: _Bound = (EMPTY, 0)


def _check_limits_below(queue: QueueConfig, kind: str, above: dict[str, _Bound], report: Report) -> None:
    """Check that no limit exceeds the one of the nearest ancestor for the same user or group (`kind`).

    `above` has the bounds by name, and is restored afterwards: a copy for each queue would take time in
    proportion to names times queues.
    """
    own: dict[str, _Bound] = {}
    for limit in queue.limits:
        for name in limit.users if kind == "user" else limit.groups:
            _check_limit(limit, kind, name, queue, above, report)
            resources, applications = above.get(name, _UNBOUNDED)
            own[name] = (
                min_undefined(limit.max_resources or EMPTY, resources),
                limit.max_applications or applications,
            )
    outer = {name: above[name] for name in own if name in above}
    above.update(own)
    for child in queue.queues:
        _check_limits_below(child, kind, above, report)
    for name in own:
        del above[name]
    above.update(outer)


def _check_limit(
    limit: LimitConfig, kind: str, name: str, queue: QueueConfig, above: Mapping[str, _Bound], report: Report
) -> None:
    """Check the limit for one name; if no ancestor has the name, the nearest wildcard's limit counts."""
    resources, applications = above.get(name, above.get(WILDCARD, _UNBOUNDED))
    named = name in above
    than = "immediate or ancestor parent {}" if named else "wildcard {} of immediate or ancestor parent queue"

    def problem(key: str, own: str, bound: str) -> None:
        message = f"{kind} {name} {own} of queue {queue.name} is greater than {than.format(bound)}"
        report.problem(message, f"{limit.place.path}.{key}")

    size = limit.max_resources or EMPTY
    if not fits_max_undefined(resources, size):
        problem("maxresources", f"max resource {describe(size)}", f"maximum resource {describe(resources)}")
    number, is_read = limit.max_applications, not report.is_faulty(f"{limit.place.path}.maxapplications")
    # A limit without a number would allow more than any number (spec § 14, row 2.6).
    if applications and is_read and not 0 < number <= applications:
        most = "max applications" if named else "maximum max applications"
        problem("maxapplications", f"max applications {number}", f"{most} {applications}")
