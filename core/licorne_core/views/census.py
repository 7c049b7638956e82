"""Census of a partition: applications by state, and their asks by obstacle.

The rules for whole applications are evaluated again. For a parked ask its blocker determines the rule that
blocks it, unless it can never start; an ask without a blocker waits for its turn.
"""

from collections import Counter
from collections.abc import Iterator
from typing import NamedTuple

from licorne_core.messages.reasons import ASK_BACKS_OFF, KINDS, NEVER_FITS, NO_NODE_FITS
from licorne_core.messages.reports import Census
from licorne_core.model.apps.application import Application, Asking
from licorne_core.model.apps.groups import AskGroup
from licorne_core.model.apps.requests import TO_REPLACE, Request, RequestState
from licorne_core.partitions.partition import Partition
from licorne_core.partitions.registry import Rm
from licorne_core.scheduling.checks import APPLICATION_RULES, ASK_RULES, EVER_FITS
from licorne_core.scheduling.waiting.blockers import Blocker, RunningLimit
from licorne_core.scheduling.waiting.shortages import QuotaShortage
from licorne_core.values.ids import AllocationKey, AppId, PartitionName, QueuePath
from licorne_core.values.resources import charge
from licorne_core.views.explain import obstacle_to_all

WAITS_FOR_TURN = "WAITS_FOR_TURN"
"""The ask waits for its turn; no check is known to block it."""

WAITS_FOR_ANSWER = "WAITS_FOR_ANSWER"
"""The ask is assumed on a node, with an open predicate check (spec § 8.4)."""

REPLACES_PLACEHOLDER = "REPLACES_PLACEHOLDER"
"""The ask replaces a placeholder as soon as the placeholder has ended (spec § 6.5)."""

REASONS = (
    NEVER_FITS,
    *(code for rule in (*APPLICATION_RULES, *ASK_RULES) for code in rule.codes),
    NO_NODE_FITS,
    WAITS_FOR_TURN,
    WAITS_FOR_ANSWER,
    REPLACES_PLACEHOLDER,
)
"""All codes of a census, in the order of the checks."""

_RULES = {rule.parks: rule for rule in (*APPLICATION_RULES, *ASK_RULES) if rule.parks is not None}

PART = 500
"""Number of groups or reservations of one application that are read between two pauses."""


class Standing(NamedTuple):
    """Queue and obstacle of an ask."""

    partition: PartitionName
    queue: QueuePath
    reason: str
    """One of `REASONS`; empty for an ask that does not wait."""


def census(partition: Partition) -> Iterator[Census | None]:
    """Yield the census, after a None wherever the reader may pause.

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
        waiting += sum(one.ask.placeholder for one in app.backing_off.values())
        for number, (code, count, placeholders) in enumerate(_waiting(partition, app), 1):
            if count:
                pending[app.queue_path, code] += count
            if placeholders:
                waiting += count
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
        noticed=len(partition.stays),
        preemptions={rule.value: count for rule, count in partition.ledger.counts.items()},
    )


def _add_reserved(
    app: Application, nodes: Counter[tuple[QueuePath, str]], kept: dict[tuple[QueuePath, str], dict[str, int]]
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
    """Count waiting asks by code; the second value is True if all were counted.

    At most `most` applications and groups are read, without a pause.
    """
    found: Counter[str] = Counter()
    left = most
    for app in partition.applications.values():
        left -= 1 + len(app.groups)
        if left < 0:
            return dict(found), False
        for code, count, _ in _waiting(partition, app):
            if count:
                found[code] += count
    return dict(found), True


def _waiting(partition: Partition, app: Application) -> Iterator[tuple[str, int, bool]]:
    """Waiting asks of an application: code, number, and True for a group of placeholders.

    Each step is one group; its number may be 0.
    """
    yield WAITS_FOR_ANSWER, app.assumed_count, False
    yield REPLACES_PLACEHOLDER, app.replacing_count, False
    stopped = stops_all(partition, app) if app.groups or app.backing_off else ""
    yield stopped or ASK_BACKS_OFF, len(app.backing_off), False
    for group in list(app.groups.values()):
        code = stops(partition, app, group, stopped) if group.waiting else ""
        yield code, group.waiting, group.key[2]


def _counted_for(app: Application) -> list[tuple[str, str]]:
    """The user for which an application counts, and the group if there is one."""
    user = ("user", app.user.user)
    return [user, ("group", app.group)] if app.group else [user]


def standing(rm: Rm, partition: str, app_id: str, key: str) -> Standing | None:
    """The standing of an ask; None for an unknown ask. `partition` is the name that the RM has sent.

    The cost does not depend on the number of waiting asks.
    """
    owner = rm.named(partition)
    app = None if owner is None else owner.applications.get(AppId(app_id))
    request = None if app is None else app.requests.get(AllocationKey(key))
    if owner is None or app is None or request is None:
        return None
    return Standing(owner.name, app.queue_path, obstacle_of(owner, app, request))


def obstacle_of(partition: Partition, app: Application, request: Request) -> str:
    """Code of an ask's obstacle; empty for a request that does not wait."""
    if request.is_pending:
        backs_off = request.key in app.backing_off
        stopped = stops_all(partition, app)
        return stopped or ASK_BACKS_OFF if backs_off else stops(partition, app, request.group, stopped)
    if request.state is RequestState.ASSUMED:
        return WAITS_FOR_ANSWER
    return REPLACES_PLACEHOLDER if request.state in TO_REPLACE else ""


def stops_all(partition: Partition, app: Application) -> str:
    """Code of the obstacle to all asks of an application; empty if there is none."""
    found = obstacle_to_all(partition.check_context, app)
    return "" if found is None else found.code


def stops(partition: Partition, app: Application, group: AskGroup, to_all: str = "") -> str:
    """Code of the obstacle to a group's asks, or `WAITS_FOR_TURN`; `to_all`: result of `stops_all`."""
    blocker: Blocker | None = group.blocker or app.blocker
    if blocker is None and not to_all:
        return WAITS_FOR_TURN
    if EVER_FITS.obstacle(partition.check_context, Asking(app, group)) is not None:
        return NEVER_FITS
    if blocker is None or to_all:
        return to_all
    rule = _RULES.get(type(blocker))
    if rule is None:
        return NO_NODE_FITS
    if isinstance(blocker, RunningLimit | QuotaShortage):
        return rule.codes[KINDS.index(blocker.quota.kind)]
    return rule.codes[0]
