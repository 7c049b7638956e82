"""Rules that can stop an ask, in the order of the pass (spec §§ 8.2-8.4).

A rule is stated once: its comparison (`obstacle`), the blocker that the ask is parked with
(`blocker`), and its reports (`reports`). The pass uses the first obstacle and its blocker;
explanations, the census and plans use the reports. The tables at the end list all rules, each with
the reason for its position.
"""

from collections.abc import Iterator, Sequence
from typing import Any, Final

from licorne_core.features import modules
from licorne_core.messages import reasons
from licorne_core.messages.operators import (
    APPLICATION_HELD,
    QUEUE_STOPPED,
    UNKNOWN_MARK,
    HeldCheck,
    OperatorMark,
    StoppedQueueCheck,
)
from licorne_core.messages.together import GANG_INCOMPLETE, NO_PLACE_TOGETHER
from licorne_core.model import quotas
from licorne_core.model.apps.application import Application, Asking
from licorne_core.model.apps.gang import TaskGroup
from licorne_core.model.apps.groups import AskGroup
from licorne_core.model.apps.requests import Setback
from licorne_core.model.apps.states import SCHEDULABLE
from licorne_core.model.nodes.book import NODES, NodeBook
from licorne_core.model.queues.queue import Queue, stopped_above
from licorne_core.model.quotas import Quota, SharedQuota, Tracker, excess, first_exceeded
from licorne_core.scheduling.rules import (
    IN_GANG,
    RESERVED,
    WITH_PREDICATE,
    CheckContext,
    Checks,
    Rule,
    RulePlace,
    by_interests,
    in_order,
)
from licorne_core.scheduling.waiting import blockers
from licorne_core.scheduling.waiting.blockers import Blocker
from licorne_core.scheduling.waiting.gangs import Incomplete, NoPlace
from licorne_core.scheduling.waiting.shortages import QuotaPool, QuotaShortage
from licorne_core.values.app_states import AppState
from licorne_core.values.resources import Items, Resources
from licorne_core.values.timers import Due, Timer


class _PartitionSchedules(Rule):
    """Scheduling in the partition is not on hold, and the partition has nodes."""

    def obstacle(self, context: CheckContext, app: Application) -> str | None:
        return None if context.nodes and not context.holds else context.partition

    def reports(self, context: CheckContext, app: Application, obstacle: str | None) -> Checks:
        yield reasons.PartitionCheck(
            partition=context.partition,
            holds=tuple(context.holds),
            nodes=len(context.nodes),
            passed=obstacle is None,
        )


class _ApplicationRuns(Rule):
    """The state of the application allows scheduling of its asks, and no operator holds it."""

    def obstacle(self, context: CheckContext, app: Application) -> AppState | OperatorMark | None:
        return app.held if app.state in SCHEDULABLE else app.state

    def reports(self, context: CheckContext, app: Application, obstacle: object) -> Checks:
        yield reasons.StateCheck(app_id=app.app_id, state=app.state.value, passed=app.state in SCHEDULABLE)
        if app.held is not None:
            yield HeldCheck(app_id=app.app_id, mark=app.held)

    def named(self, obstacle: AppState | OperatorMark) -> tuple[str, str]:
        return self.codes[isinstance(obstacle, OperatorMark)], ""


class _QueueRuns(Rule):
    """No operator has stopped the queue, or one above it (spec § 4.2)."""

    def obstacle(self, context: CheckContext, app: Application) -> Queue | None:
        return stopped_above(app.leaf)

    def blocker(self, context: CheckContext, app: Application, obstacle: Queue) -> Blocker:
        return context.wakeups.blockers.get(blockers.StoppedQueue, obstacle)

    def reports(self, context: CheckContext, app: Application, obstacle: Queue | None) -> Checks:
        if obstacle is not None:
            mark = context.tree.stopped.get(obstacle.path, UNKNOWN_MARK)
            yield StoppedQueueCheck(queue=obstacle.path, mark=mark)


class _MayStart(Rule):
    """Every queue and limit admits the accepted application (spec §§ 4.12, 10.5)."""

    def obstacle(self, context: CheckContext, app: Application) -> Quota | None:
        if app.state is AppState.ACCEPTED:
            for quota in app.quotas:
                if quota.max_applications and not quotas.may_start(quota, app.app_id):
                    return quota
        return None

    def blocker(self, context: CheckContext, app: Application, obstacle: Quota) -> Blocker:
        return context.wakeups.blockers.get(blockers.RunningLimit, obstacle)

    def reports(self, context: CheckContext, app: Application, obstacle: Quota | None) -> Checks:
        if app.state is AppState.ACCEPTED:
            for quota in app.quotas:
                if quota.max_applications and not quota.counts(app.app_id):
                    yield reasons.RunningCheck(
                        kind=quota.kind,
                        name=quota.name,
                        queue=quota.path,
                        running=quota.started_applications,
                        max_applications=quota.max_applications,
                        passed=quotas.may_run_one_more(quota),
                    )

    def named(self, obstacle: Quota) -> tuple[str, str]:
        return _named(self.codes, obstacle)


class _AskIsDue(Rule):
    """The ask does not back off after a failure of its RM to run it (spec § 1.4)."""

    def obstacle(self, context: CheckContext, asking: Asking) -> Setback | None:
        request = asking.request
        if request is None or request.key not in asking.app.backing_off:
            return None
        return request.setback

    def reports(self, context: CheckContext, asking: Asking, obstacle: Setback | None) -> Checks:
        if asking.request is not None and obstacle is not None:
            failures, until = obstacle
            yield reasons.AskBackOffCheck(key=asking.request.key, failures=failures, until=until)


class _NoPlaceholderOpen(Rule):
    """No placeholder is open in the task group of a real ask (spec § 6.4)."""

    def obstacle(self, context: CheckContext, asking: Asking) -> TaskGroup | None:
        _, task_group, is_placeholder = asking.group.key
        return asking.app.gang.open_group(task_group, placeholder=is_placeholder)

    def blocker(self, context: CheckContext, asking: Asking, obstacle: TaskGroup) -> Blocker:
        return context.wakeups.blockers.get(blockers.OpenPlaceholders, obstacle)

    def reports(self, context: CheckContext, asking: Asking, obstacle: TaskGroup | None) -> Checks:
        app = asking.app
        _, name, is_placeholder = asking.group.key
        task_group = None if is_placeholder else app.gang.groups.get(name)
        if task_group is not None:
            yield reasons.GangCheck(
                app_id=app.app_id,
                task_group=name,
                count=task_group.count,
                replaced=task_group.replaced,
                timed_out=task_group.timed_out,
                keeping=len(task_group.free),
                cancelled=len(task_group.cancelled),
                until=context.timers.deadline(Timer(Due.PLACEHOLDERS, app.app_id)) or 0.0,
                passed=obstacle is None,
            )


class _WithinMaxima(Rule):
    """With the ask, queues and user, group and additional quotas are within their maxima (§ 8.3c, e)."""

    def obstacle(self, context: CheckContext, asking: Asking) -> Quota | None:
        if asking.promise is None:
            return first_exceeded(asking.app.quotas, asking.items)
        for quota in asking.app.quotas:
            if excess(quota, asking.needs(quota)):
                return quota
        return None

    def blocker(self, context: CheckContext, asking: Asking, obstacle: Quota) -> Blocker:
        pool = context.wakeups.blockers.get(QuotaPool, obstacle)
        return pool.shortage(asking.needs(obstacle))

    def reports(self, context: CheckContext, asking: Asking, obstacle: Quota | None) -> Checks:
        requested = dict(asking.group.together) or asking.group.ask_class.resources
        for quota in asking.app.quotas:
            short = excess(quota, asking.needs(quota))
            allocated = dict(quotas.claimed(quota))
            limit = None if quota.max is None else dict(quota.max)
            if isinstance(quota, Queue):
                if quota.parent is None and limit is not None:
                    limit = dict(context.core.floating.shown(limit))
                yield reasons.QueueCheck(
                    queue=quota.path,
                    requested=requested,
                    allocated=allocated,
                    max=limit,
                    is_root=quota.parent is None,
                    short=short,
                )
            elif isinstance(quota, SharedQuota) and limit is not None:
                yield quota.check(context.core, requested, short)
            elif isinstance(quota, Tracker) and limit is not None:
                yield reasons.LimitCheck(
                    kind=quota.kind,
                    name=quota.name,
                    queue=quota.path,
                    requested=requested,
                    allocated=allocated,
                    max=limit,
                    short=short,
                )

    def named(self, obstacle: Quota) -> tuple[str, str]:
        return _named(self.codes, obstacle)


class _EverFits(Rule):
    """The ask is within the maxima of its queues, user and group, and no larger than some node.

    Only reports use this rule, before all others: a pass parks such asks behind the maximum or the nodes.
    Capacities of removed nodes count, as such a node may be added again; but no node counts for an ask that
    requires an unknown one. The maximum of root does not count: it is the present size of the cluster.
    Without nodes the rule has no result.
    """

    def obstacle(self, context: CheckContext, asking: Asking) -> reasons.SizeBound | None:
        return next(_bounds(context.node_book, asking), None) if context.nodes else None

    def reports(self, context: CheckContext, asking: Asking, obstacle: reasons.SizeBound | None) -> Checks:
        if obstacle is not None:
            yield reasons.SizeCheck(bounds=tuple(_bounds(context.node_book, asking)))


class _HasPlaceTogether(Rule):
    """The last search has found room for the whole gang (`gang_placement.py`)."""

    def obstacle(self, context: CheckContext, asking: Asking) -> Blocker | None:
        blocker: Blocker | None = asking.group.blocker
        return blocker if type(blocker) is self.parks else None

    def reports(self, context: CheckContext, asking: Asking, obstacle: Any) -> Checks:
        if obstacle is not None:
            yield obstacle.lack
        elif self.parks is NoPlace and context.wakeups.short_gangs.get(asking.group, NODES) is None:
            # The gang waits for headroom of the cluster, but would not fit even with it: report that.
            never: reasons.Check | None = asking.app.gang.if_empty.lack
            if never is not None:
                yield never


def _bounds(nodes: NodeBook, asking: Asking) -> Iterator[reasons.SizeBound]:
    """The quotas and nodes that the ask is too large for."""
    for quota in asking.app.quotas:
        most = quota.max
        if most is not None and quota.kind in reasons.RUNNING_CODES and not quota.strict:
            names = [name for name, value in asking.items if most.get(name, value) < value]
            if names:
                whose = "" if quota.kind == "queue" else f"for {quota.kind} {quota.name} "
                yield _bound(f"{whose}in queue {quota.path}", asking.items, most, names)
    wanted = asking.group.ask_class
    most, where, required = nodes.highest, "on a node", wanted.required_node
    if required is not None:
        node = nodes.by_id.get(required)
        if node is None:
            return
        most, where = node.capacity, f"on node {required}, which it requires"
    names = [name for name, value in wanted.items if most.get(name, 0) < value]
    if not names and required is None and nodes.never_held(wanted.items):
        most, where = nodes.closest_size(wanted.items), "together on the closest node"
        names = [name for name, value in wanted.items if value]
    if names:
        yield _bound(where, wanted.items, most, names)


def _bound(where: str, items: Items, most: Resources, names: list[str]) -> reasons.SizeBound:
    wanted = {name: value for name, value in items if name in names}
    return reasons.SizeBound(where=where, wanted=wanted, most={name: most.get(name, 0) for name in wanted})


def _named(codes: Sequence[str], quota: Quota) -> tuple[str, str]:
    """Code and subject of a quota that stops an ask, by its kind."""
    kind = quota.kind
    subject = quota.path if kind == "queue" else quota.name
    if kind in ("user", "group"):
        subject = f"{quota.name} in {quota.path}"
    return codes[reasons.KINDS.index(kind)], subject


def _of_features(*, applications: bool) -> list[Rule]:
    """The rules of features, for applications or for asks."""
    found: list[Rule] = [rule for _, module in modules("rules") for rule in module.RULES]
    return [rule for rule in found if (rule.place < RulePlace.DUE) is applications]


QUEUE_RUNS: Final = _QueueRuns(RulePlace.MARK, (QUEUE_STOPPED,), blockers.StoppedQueue)

EVER_FITS: Final = _EverFits(RulePlace.PARTITION, (reasons.NEVER_FITS,))

APPLICATION_RULES: Final = in_order(
    (
        _PartitionSchedules(RulePlace.PARTITION, (reasons.PARTITION_NOT_SCHEDULING,)),
        _ApplicationRuns(RulePlace.STATE, (reasons.APPLICATION_NOT_RUNNABLE, APPLICATION_HELD)),
        QUEUE_RUNS,
        _MayStart(RulePlace.START, tuple(reasons.RUNNING_CODES.values()), blockers.RunningLimit),
        *_of_features(applications=True),
    )
)
"""Rules for all asks of an application."""

ASK_RULES: Final = in_order(
    (
        _AskIsDue(RulePlace.DUE, (reasons.ASK_BACKS_OFF,)),
        # This rule reads only counts of the application.
        _NoPlaceholderOpen(
            RulePlace.PLACEHOLDER,
            (reasons.WAITS_FOR_PLACEHOLDER,),
            blockers.OpenPlaceholders,
            interest=IN_GANG,
            spares_reserved=True,
        ),
        # Users, groups and further quotas come before queues: preemption does not help against them (§ 8.3c).
        _WithinMaxima(RulePlace.QUOTA, tuple(reasons.QUOTA_CODES.values()), QuotaShortage),
        _HasPlaceTogether(RulePlace.TOGETHER, (GANG_INCOMPLETE,), Incomplete, found_by_search=True),
        _HasPlaceTogether(RulePlace.TOGETHER, (NO_PLACE_TOGETHER,), NoPlace, found_by_search=True),
        *_of_features(applications=False),
    )
)
"""Rules that precede the search for a node, which costs most (`NodeIndex.best`)."""

_APPLICATION_BITS, _FOR_APPLICATIONS = by_interests(APPLICATION_RULES)
_ASK_BITS, _FOR_ASKS = by_interests(ASK_RULES)

STOPPABLE: Final = _APPLICATION_BITS & ~RESERVED
"""Interests of applications for which a rule may stop the whole application."""


def application_blocker(context: CheckContext, app: Application, *, reserved: bool = False) -> Blocker | None:
    """First blocker of all asks of an application, or only of its `reserved` asks; None if none."""
    interests = app.interests | RESERVED if reserved else app.interests
    for rule in _FOR_APPLICATIONS[interests & _APPLICATION_BITS]:
        obstacle = rule.obstacle(context, app)
        if obstacle is not None:
            return rule.blocker(context, app, obstacle)
    return None


def is_all_stopped(context: CheckContext, app: Application) -> bool:
    """True if a rule stops all asks of the application, such as an operator's hold."""
    return any(rule.obstacle(context, app) is not None for rule in APPLICATION_RULES)


def is_stopped(context: CheckContext, group: AskGroup) -> bool:
    """True if a rule stops the asks of the group, regardless of nodes and of the RM's answers."""
    asking = Asking(group.app, group)
    interests = group.app.interests | group.app.leaf.interests
    if group.app.gang.groups:
        interests |= IN_GANG
    rules = _FOR_ASKS[interests & _ASK_BITS]
    return any(rule.obstacle(context, asking) is not None for rule in rules)


def ask_blocker(context: CheckContext, asking: Asking, *, beyond: int = 0) -> Blocker | None:
    """First blocker of the asks of a group, or of one reserved ask; nodes are not searched.

    Only rules with a place after `beyond` count. None if no rule stops the asks.
    """
    app = asking.app
    interests: int = app.interests | app.leaf.interests
    if app.gang.groups:
        interests |= IN_GANG
    if asking.group.ask_class.predicate is not None:
        interests |= WITH_PREDICATE
    if asking.is_reserved:
        interests |= RESERVED
    rules = _FOR_ASKS[interests & _ASK_BITS]
    if beyond:
        rules = tuple([rule for rule in rules if rule.place > beyond])
    for rule in rules:
        obstacle = rule.obstacle(context, asking)
        if obstacle is not None:
            return rule.blocker(context, asking, obstacle)
    return None
