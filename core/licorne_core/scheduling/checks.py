"""Checks that can stop an ask, in the order of the pass (spec §§ 8.2-8.4).

The tables at the end are the contents: one line for each check, with the reason for its place. The
pass asks `blocker` and stops at the first that answers; `explain` asks them all for their `report`.
"""

from collections.abc import Callable, Iterable
from itertools import product
from typing import Final, NamedTuple

from licorne_core.messages.reasons import (
    AnswersCheck,
    BackOffCheck,
    Check,
    GangCheck,
    LimitCheck,
    QueueCheck,
    RunningCheck,
    StoppedQueueCheck,
)
from licorne_core.model.apps.application import Application
from licorne_core.model.apps.groups import AskGroup
from licorne_core.model.apps.states import AppState
from licorne_core.model.queues.access import stopped_above
from licorne_core.model.queues.queue import Queue
from licorne_core.model.quotas import Quota, claimed, excess, first_exceeded, may_start
from licorne_core.model.trackers import Tracker
from licorne_core.scheduling.escalation import Escalation
from licorne_core.scheduling.predicates.checks import PredicateChecks
from licorne_core.scheduling.preempting import Preemption
from licorne_core.scheduling.reservations.promises import Promise
from licorne_core.scheduling.waiting.blockers import Blocker
from licorne_core.scheduling.waiting.changes import Changes
from licorne_core.scheduling.waiting.wakeups import Wakeups
from licorne_core.values.resources import Items
from licorne_core.values.timers import Due, Timer, Timers


class CheckContext(NamedTuple):
    """Parts of a partition that checks read, in addition to the application and the ask."""

    changes: Changes
    wakeups: Wakeups
    escalation: Escalation
    predicates: PredicateChecks
    timers: Timers[Timer]
    preemption: Preemption


class ApplicationCheck(NamedTuple):
    """A check of all asks of an application."""

    blocker: Callable[[CheckContext, Application], Blocker | None]
    report: Callable[[CheckContext, Application], Iterable[Check]]
    spares_reserved: bool = False
    """True if asks that have a node reserved are tried all the same (spec § 8.6)."""


class Asking:
    """Subject of a check: a group of an application, or one of its asks that has a promise.

    A class of its own: compiled, it is made faster than a tuple, and its method called.
    """

    __slots__ = ("app", "group", "items", "promise")

    def __init__(self, app: Application, group: AskGroup, promise: Promise | None = None) -> None:
        """Create a subject; `promise` has the amounts reserved for this ask (spec § 9.4)."""
        self.app = app
        self.group = group
        self.items: Items = group.ask_class.items
        self.promise = promise

    def needs(self, quota: Quota) -> Items:
        """Amounts needed in a quota, in addition to those reserved there for this ask."""
        return self.items if self.promise is None else self.promise.lacks(quota)


class AskCheck(NamedTuple):
    """A check of the asks of one group in an application."""

    blocker: Callable[[CheckContext, Asking], Blocker | None]
    report: Callable[[CheckContext, Asking], Iterable[Check]]
    only_with_predicate: bool = False
    """True if it stops only asks with a predicate, which the RM has to accept on a node."""
    only_in_gangs: bool = False
    """True if it stops only asks of applications that have had placeholders."""
    spares_reserved: bool = False
    """True if asks that have a node reserved are tried all the same."""


def stopped_queue(context: CheckContext, app: Application) -> Blocker | None:
    """The stopped queue that the application is in or below; nothing is replaced there."""
    queue = stopped_above(app.leaf)
    return None if queue is None else context.wakeups.stopped_queues.get(queue)


def _report_stopped(context: CheckContext, app: Application) -> Iterable[Check]:
    queue = stopped_above(app.leaf)
    if queue is not None:
        yield StoppedQueueCheck(queue=queue.path)


def _back_off(context: CheckContext, app: Application) -> Blocker | None:
    return context.escalation.back_off(app) if app.backoff_until else None


def _report_back_off(context: CheckContext, app: Application) -> Iterable[Check]:
    if app.backoff_until:
        threshold = app.leaf.settings.backoff_threshold
        yield BackOffCheck(app_id=app.app_id, until=app.backoff_until, threshold=threshold)


def _may_start(context: CheckContext, app: Application) -> Blocker | None:
    if app.state is AppState.ACCEPTED:
        for quota in app.quotas:
            if quota.max_applications and not may_start(quota, app.app_id):
                return context.wakeups.running_limits.get(quota)
    return None


def _report_may_start(context: CheckContext, app: Application) -> Iterable[Check]:
    if app.state is AppState.ACCEPTED:
        for quota in app.quotas:
            if quota.max_applications and not quota.counts(app.app_id):
                yield _running_check(quota)


def _running_check(quota: Quota) -> RunningCheck:
    kind, subject = "queue", ""
    if isinstance(quota, Tracker):
        kind, subject = quota.kind, f"{quota.kind} {quota.name} in queue {quota.path}"
    elif isinstance(quota, Queue):
        subject = f"queue {quota.path}"
    return RunningCheck(
        kind=kind,
        subject=subject,
        running=quota.started_applications,
        max_applications=quota.max_applications,
    )


def _gang(context: CheckContext, asking: Asking) -> Blocker | None:
    _, task_group, is_placeholder = asking.group.key
    waits_for = asking.app.gang.open_group(task_group, placeholder=is_placeholder)
    return None if waits_for is None else context.wakeups.gang_waits.get(waits_for)


def _report_gang(context: CheckContext, asking: Asking) -> Iterable[Check]:
    app = asking.app
    _, name, is_placeholder = asking.group.key
    task_group = None if is_placeholder else app.gang.groups.get(name)
    if task_group is not None:
        yield GangCheck(
            app_id=app.app_id,
            task_group=name,
            count=task_group.count,
            replaced=task_group.replaced,
            timed_out=task_group.timed_out,
            keeping=len(task_group.free),
            cancelled=len(task_group.cancelled),
            until=context.timers.deadline(Timer(Due.PLACEHOLDERS, app.app_id)) or 0.0,
        )


def _quota(context: CheckContext, asking: Asking) -> Blocker | None:
    if asking.promise is None:
        over = first_exceeded(asking.app.quotas, asking.items)
        return None if over is None else context.wakeups.shortages.get(over, asking.items)
    for quota in asking.app.quotas:
        items = asking.needs(quota)
        if quota.max is not None and excess(quota, items):
            return context.wakeups.shortages.get(quota, items)
    return None


def _report_quota(context: CheckContext, asking: Asking) -> Iterable[Check]:
    ask_class = asking.group.ask_class
    for quota in asking.app.quotas:
        short = excess(quota, asking.needs(quota))
        limit = None if quota.max is None else dict(quota.max)
        if isinstance(quota, Queue):
            yield QueueCheck(
                queue=quota.path,
                requested=ask_class.resources,
                allocated=dict(claimed(quota)),
                max=limit,
                is_root=quota.parent is None,
                short=short,
            )
        elif isinstance(quota, Tracker) and limit is not None:
            yield LimitCheck(
                kind=quota.kind,
                name=quota.name,
                queue=quota.path,
                requested=ask_class.resources,
                allocated=dict(claimed(quota)),
                max=limit,
                short=short,
            )


def _answers(context: CheckContext, asking: Asking) -> Blocker | None:
    return context.predicates.owed if context.predicates.full else None


def _report_answers(context: CheckContext, asking: Asking) -> Iterable[Check]:
    yield AnswersCheck(waiting=context.predicates.waiting, most=context.predicates.owed.most)


APPLICATION_CHECKS = (
    # An operator has said so, and nothing else helps.
    ApplicationCheck(stopped_queue, _report_stopped),
    # It needs a look at the application only.
    ApplicationCheck(_back_off, _report_back_off, spares_reserved=True),
    # Before any ask, as it stops all of them; behind the back-off, which is over at a known time.
    ApplicationCheck(_may_start, _report_may_start),
)

ASK_CHECKS = (
    # Placeholders keep room for the ask already, or have to be gone before it is placed elsewhere.
    # It is a look at numbers of the application.
    AskCheck(_gang, _report_gang, only_in_gangs=True, spares_reserved=True),
    # Users and groups come before queues: where a limit is in the way, preemption does not help
    # (spec § 8.3c). Both come before the nodes, as they are fewer.
    AskCheck(_quota, _report_quota),
    # A node that is found could not be asked about.
    AskCheck(_answers, _report_answers, only_with_predicate=True),
)
"""Checks that come before the nodes. Nodes cost most, so they come last: `NodeIndex.best`."""

_BLOCKERS: Final = {
    (in_gang, has_predicate, reserved): tuple(
        check.blocker
        for check in ASK_CHECKS
        if (in_gang or not check.only_in_gangs)
        and (has_predicate or not check.only_with_predicate)
        and not (reserved and check.spares_reserved)
    )
    for in_gang, has_predicate, reserved in product((False, True), repeat=3)
}
"""Checks by the properties of an ask: a check that it cannot fail costs it nothing."""


def application_blocker(
    context: CheckContext, app: Application, *, reserved: bool = False
) -> Blocker | None:
    """The first thing that stops all asks of the application, or those that have a node."""
    for check in APPLICATION_CHECKS:
        if reserved and check.spares_reserved:
            continue
        blocker = check.blocker(context, app)
        if blocker is not None:
            return blocker
    return None


def ask_blocker(context: CheckContext, asking: Asking, *, reserved: bool = False) -> Blocker | None:
    """The first thing before the nodes that stops asks of the group, or those that have a node."""
    in_gang = len(asking.app.gang.groups) > 0
    has_predicate = asking.group.ask_class.predicate is not None
    for find in _BLOCKERS[in_gang, has_predicate, reserved]:
        blocker = find(context, asking)
        if blocker is not None:
            return blocker
    return None
