"""Census of a partition: applications by state, and their asks by obstacle.

Nothing is tried anew. An ask that was tried in vain has its blocker, which names the failed check;
an ask without one waits for its turn.
"""

from collections import Counter
from collections.abc import Iterator

from licorne_core.messages.reports import Census
from licorne_core.model.apps.application import Application
from licorne_core.model.apps.groups import AskGroup
from licorne_core.model.apps.states import SCHEDULABLE
from licorne_core.model.queues.access import stopped_above
from licorne_core.model.quotas import Quota
from licorne_core.model.trackers import Tracker
from licorne_core.partitions.partition import Partition
from licorne_core.scheduling.predicates.checks import AnswersOwed
from licorne_core.scheduling.waiting.blockers import Blocker, OpenPlaceholders, RunningLimit
from licorne_core.scheduling.waiting.shortages import QuotaShortage
from licorne_core.values.ids import QueuePath
from licorne_core.values.resources import charge
from licorne_core.views.explain import starting_checks

WAITS_FOR_TURN = "WAITS_FOR_TURN"
"""No check is known to stop the ask."""

WAITS_FOR_ANSWER = "WAITS_FOR_ANSWER"
"""The ask has a node, and the RM is being asked about it (spec § 8.4)."""

REPLACES_PLACEHOLDER = "REPLACES_PLACEHOLDER"
"""The ask is to take the place of a placeholder once that is gone (spec § 6.5)."""

ASK_BACKS_OFF = "ASK_BACKS_OFF"
"""The ask backs off, as its RM failed to run its allocation (spec § 1.4)."""

KINDS = ("queue", "user", "group")
# The codes of the checks stand here as texts: a compiled class does not give its objects' values.
REASONS = (
    "PARTITION_NOT_SCHEDULING",
    "APPLICATION_NOT_RUNNABLE",
    "ANOTHER_APPLICATION_STARTS",
    "QUEUE_STOPPED",
    "APPLICATION_BACKS_OFF",
    *(f"{kind.upper()}_MAX_APPLICATIONS" for kind in KINDS),
    ASK_BACKS_OFF,
    "WAITS_FOR_PLACEHOLDER",
    "QUEUE_MAX_EXCEEDED",
    "USER_QUOTA_EXCEEDED",
    "GROUP_QUOTA_EXCEEDED",
    "TOO_MANY_ANSWERS_OWED",
    "NO_NODE_FITS",
    WAITS_FOR_TURN,
    WAITS_FOR_ANSWER,
    REPLACES_PLACEHOLDER,
)
"""Every code that a census may have, in the order of the checks."""

PART = 500
"""Groups of one application that are looked at before others have their turn."""


def census(partition: Partition) -> Iterator[Census | None]:
    """The census, with a None before it wherever the reader may pause.

    Later changes may be missed.
    """
    applications: Counter[tuple[QueuePath, str]] = Counter()
    pending: Counter[tuple[QueuePath, str]] = Counter()
    usage: dict[tuple[str, str], dict[str, int]] = {}
    running: Counter[tuple[str, str]] = Counter()
    reserved_nodes: Counter[tuple[QueuePath, str]] = Counter()
    reserved: dict[tuple[QueuePath, str], dict[str, int]] = {}
    waiting = kept = reservations = 0
    for app in list(partition.applications.values()):
        yield None
        applications[app.queue_path, app.state.value.lower()] += 1
        kept += app.placeholder_count
        reservations += len(app.reserved)
        yield from _add_reserved(app, reserved_nodes, reserved)
        if app.allocation_count:
            for who in _counted_for(app):
                running[who] += 1
                for booked in (app.allocated, app.placeholder_allocated):
                    charge(usage.setdefault(who, {}), tuple(booked.items()))
        if len(app.requests) == app.allocation_count and not app.assumed_count:
            continue
        if app.assumed_count:
            pending[app.queue_path, WAITS_FOR_ANSWER] += app.assumed_count
        if app.replacing_count:
            pending[app.queue_path, REPLACES_PLACEHOLDER] += app.replacing_count
        stopped = stops_all(partition, app)
        if app.backing_off:
            pending[app.queue_path, stopped or ASK_BACKS_OFF] += len(app.backing_off)
            waiting += sum(one.ask.placeholder for one in app.backing_off.values())
        for number, group in enumerate(list(app.groups.values()), 1):
            if group.waiting:
                pending[app.queue_path, stopped or stops(app, group)] += group.waiting
                waiting += group.waiting if group.key[2] else 0
            if not number % PART:
                yield None
    yield Census(
        applications=applications,
        pending=pending,
        usage=usage,
        running=running,
        placeholders_waiting=waiting,
        placeholders=kept,
        reservations=reservations,
        reserved_nodes=reserved_nodes,
        reserved=reserved,
        preemptions={rule.value: count for rule, count in partition.ledger.counts.items()},
    )


def _add_reserved(
    app: Application,
    nodes: Counter[tuple[QueuePath, str]],
    kept: dict[tuple[QueuePath, str], dict[str, int]],
) -> Iterator[None]:
    """Add the reservations of one application."""
    for number, request in enumerate(list(app.reserved.values()), 1):
        reservation = request.reservation
        if reservation is not None and reservation.node_id is not None:
            whose = (app.queue_path, "able" if reservation.idle_since is None else "idle")
            nodes[whose] += 1
            charge(kept.setdefault(whose, {}), reservation.items)
        if not number % PART:
            yield None


def waiting_by_code(partition: Partition, most: int) -> tuple[dict[str, int], bool]:
    """Count waiting asks by code, over so many applications and groups; True if these are all.

    It is the census of pending asks, for readers in the middle of the work.
    """
    found: Counter[str] = Counter()
    left = most
    for app in partition.applications.values():
        left -= 1 + len(app.groups)
        if left < 0:
            return dict(found), False
        if app.assumed_count:
            found[WAITS_FOR_ANSWER] += app.assumed_count
        if app.replacing_count:
            found[REPLACES_PLACEHOLDER] += app.replacing_count
        stopped = stops_all(partition, app) if app.groups or app.backing_off else ""
        if app.backing_off:
            found[stopped or ASK_BACKS_OFF] += len(app.backing_off)
        for group in app.groups.values():
            if group.waiting:
                found[stopped or stops(app, group)] += group.waiting
    return dict(found), True


def _counted_for(app: Application) -> list[tuple[str, str]]:
    """The user of an application, and the group that it counts for if there is one."""
    user = ("user", app.user.user)
    return [user, ("group", app.group)] if app.group else [user]


def stops_all(partition: Partition, app: Application) -> str:
    """Code of the obstacle to all asks of an application; empty for none."""
    if partition.holds or not partition.nodes.by_id:
        return "PARTITION_NOT_SCHEDULING"
    if app.state not in SCHEDULABLE:
        return "APPLICATION_NOT_RUNNABLE"
    if any(not check.passed for check in starting_checks(partition, app)):
        return "ANOTHER_APPLICATION_STARTS"
    if stopped_above(app.leaf) is not None:
        return "QUEUE_STOPPED"
    if app.backoff_until:
        return "APPLICATION_BACKS_OFF"
    if isinstance(app.blocker, RunningLimit):
        return f"{_kind(app.blocker.quota).upper()}_MAX_APPLICATIONS"
    return ""


def stops(app: Application, group: AskGroup) -> str:
    """Code of the obstacle to the asks of a group, or of their wait for a turn."""
    blocker: Blocker | None = group.blocker or app.blocker
    match blocker:
        case None:
            return WAITS_FOR_TURN
        case OpenPlaceholders():
            return "WAITS_FOR_PLACEHOLDER"
        case QuotaShortage():
            kind = _kind(blocker.quota)
            return "QUEUE_MAX_EXCEEDED" if kind == "queue" else f"{kind.upper()}_QUOTA_EXCEEDED"
        case AnswersOwed():
            return "TOO_MANY_ANSWERS_OWED"
        case _:
            return "NO_NODE_FITS"


def _kind(quota: Quota) -> str:
    """Kind of the quota: ``queue``, ``user`` or ``group``."""
    return quota.kind if isinstance(quota, Tracker) else "queue"
