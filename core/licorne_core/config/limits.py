"""Limits for users and groups: reading and validating them (spec §§ 2.5 #18, 2.6)."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from licorne_core.config.caps import LIMIT_NAMES, LIMITS
from licorne_core.config.keys import LIMIT
from licorne_core.config.reader import Cursor, Fields
from licorne_core.config.report import Report
from licorne_core.config.schema import LimitConfig, QueueConfig
from licorne_core.values.names import WILDCARD, is_group_name, is_user_name
from licorne_core.values.resources import (
    EMPTY,
    Resources,
    describe,
    fits_max_undefined,
    is_zero,
    min_undefined,
)

_KEYS = LIMIT.names
_LONE_WILDCARD = (
    "should not specify only one group limit that is using the wildcard. "
    "There must be at least one limit with a group name defined"
)


def read_limit(cursor: Cursor) -> LimitConfig:
    """Read an entry of a ``limits`` list."""
    cursor.report.count(LIMITS, cursor.path)
    fields = cursor.fields(*_KEYS)
    return LimitConfig(
        limit=fields.text("limit"),
        users=_names(fields, "user", is_user_name),
        groups=_names(fields, "group", is_group_name),
        max_resources=fields.resources("maxresources"),
        max_applications=fields.count("maxapplications"),
        place=cursor.place,
    )


def _names(limit: Fields, kind: str, allowed: Callable[[str], bool]) -> tuple[str, ...]:
    """The names of a list, each once; a name that is listed twice gives a warning."""
    cursors = limit.items(f"{kind}s")
    limit.owner.report.count(LIMIT_NAMES, limit.path(f"{kind}s"), len(cursors))
    names: dict[str, None] = {}
    for cursor in cursors:
        name = cursor.text()
        if name != WILDCARD and not allowed(name):
            message = f"invalid limit {kind} name '{name}' in limit definition"
            cursor.report.problem(message, cursor.path)
        elif name in names:
            cursor.report.warn(f"{kind} '{name}' is listed twice", cursor.path)
        names[name] = None
    if WILDCARD in names and next(iter(names)) != WILDCARD:
        message = f"the wildcard cannot stand beside {kind} names in one limit"
        cursors[-1].report.problem(message, cursors[-1].path)
    return tuple(names)


def check_limits(queue: QueueConfig, report: Report) -> None:
    """Check the limits of one queue, by themselves and against the queue's own maximum."""
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
    return any(report.is_faulty(f"{path}.{key}") for key in keys)


def _check_names(kind: str, names: tuple[str, ...], earlier: set[str], report: Report, path: str) -> None:
    """Check that a queue's limits have every name once, and none after the wildcard."""
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
"""Limit of the nearest ancestor with one for a name: resources, and applications."""

_UNBOUNDED: _Bound = (EMPTY, 0)


@dataclass(frozen=True, slots=True)
class _Named:
    """A user or group (`kind`) of one limit."""

    kind: str
    name: str
    queue: QueueConfig
    limit: LimitConfig

    def exceeds(self, what: str, size: object) -> str:
        """The beginning of every message about a limit that is too large."""
        return f"{self.kind} {self.name} {what} {size} of queue {self.queue.name} is greater than"


def check_limit_hierarchy(root: QueueConfig, report: Report) -> None:
    """Check that no limit exceeds the one of the nearest ancestor for the same name.

    Where no ancestor names the user or group, the wildcard's nearest limit counts.
    """
    for kind in ("user", "group"):
        _check_below(root, kind, {}, report)


def _check_below(queue: QueueConfig, kind: str, above: dict[str, _Bound], report: Report) -> None:
    """Check a queue and those below it. `above` is by name; it is the same again afterwards.

    It is not copied for each queue: the time would grow as the number of names times that of
    queues.
    """
    own: dict[str, _Bound] = {}
    for limit in queue.limits:
        for name in limit.users if kind == "user" else limit.groups:
            named = _Named(kind, name, queue, limit)
            _check_resources(named, above, report)
            _check_applications(named, above, report)
            resources, applications = above.get(name, _UNBOUNDED)
            own[name] = (
                min_undefined(limit.max_resources or EMPTY, resources),
                limit.max_applications or applications,
            )
    outer = {name: above[name] for name in own if name in above}
    above.update(own)
    for child in queue.queues:
        _check_below(child, kind, above, report)
    for name in own:
        del above[name]
    above.update(outer)


def _check_resources(named: _Named, above: Mapping[str, _Bound], report: Report) -> None:
    own = named.limit.max_resources or EMPTY
    bound = above.get(named.name, above.get(WILDCARD, _UNBOUNDED))[0]
    if fits_max_undefined(bound, own):
        return
    if named.name in above:
        than = f"immediate or ancestor parent maximum resource {describe(bound)}"
    else:
        than = f"wildcard maximum resource {describe(bound)} of immediate or ancestor parent queue"
    message = f"{named.exceeds('max resource', describe(own))} {than}"
    report.problem(message, f"{named.limit.place.path}.maxresources")


def _check_applications(named: _Named, above: Mapping[str, _Bound], report: Report) -> None:
    own = named.limit.max_applications
    bound = above.get(named.name, above.get(WILDCARD, _UNBOUNDED))[1]
    path = f"{named.limit.place.path}.maxapplications"
    # A limit without a number would allow more than any number (spec § 14, row 2.6).
    if not bound or 0 < own <= bound or report.is_faulty(path):
        return
    if named.name in above:
        than = f"immediate or ancestor parent max applications {bound}"
    else:
        than = f"wildcard maximum max applications {bound} of immediate or ancestor parent queue"
    report.problem(f"{named.exceeds('max applications', own)} {than}", path)
