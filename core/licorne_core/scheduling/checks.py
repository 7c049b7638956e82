"""What can stop an ask, in the order in which it is asked (spec §§ 8.2-8.4).

The tables at the end are the contents: one line for each check, with the reason for its place. The
pass asks `blocker` and stops at the first that answers; `explain` asks them all for their `report`.
"""

from collections.abc import Callable, Iterable
from typing import NamedTuple

from licorne_core.apps.application import Application
from licorne_core.apps.states import AppState
from licorne_core.asks import AskClass
from licorne_core.queues.queue import Queue
from licorne_core.quotas import Quota, excess, may_start
from licorne_core.reasons import (
    AnswersCheck,
    BackOffCheck,
    Check,
    LimitCheck,
    QueueCheck,
    RunningCheck,
)
from licorne_core.scheduling.blockers import Blocker
from licorne_core.scheduling.changes import Changes
from licorne_core.scheduling.escalation import Escalation
from licorne_core.scheduling.predicate_checks import PredicateChecks
from licorne_core.scheduling.wakeups import Wakeups
from licorne_core.trackers import Tracker


class Scene(NamedTuple):
    """What checks look at beside the application and the ask."""

    changes: Changes
    wakeups: Wakeups
    escalation: Escalation
    predicates: PredicateChecks


class ApplicationCheck(NamedTuple):
    """Something that can stop all asks of an application."""

    blocker: Callable[[Scene, Application], Blocker | None]
    report: Callable[[Scene, Application], Iterable[Check]]
    spares_reserved: bool = False
    """Whether asks that have a node reserved are tried all the same (spec § 8.6)."""


class AskCheck(NamedTuple):
    """Something that can stop the asks of one class in an application."""

    blocker: Callable[[Scene, Application, AskClass], Blocker | None]
    report: Callable[[Scene, Application, AskClass], Iterable[Check]]
    only_with_predicate: bool = False
    """Whether it stops only asks in whose nodes the RM has a say."""


def _back_off(scene: Scene, app: Application) -> Blocker | None:
    return scene.escalation.back_off(app) if app.backoff_until else None


def _report_back_off(scene: Scene, app: Application) -> Iterable[Check]:
    if app.backoff_until:
        threshold = app.leaf.settings.backoff_threshold
        yield BackOffCheck(app_id=app.app_id, until=app.backoff_until, threshold=threshold)


def _may_start(scene: Scene, app: Application) -> Blocker | None:
    if app.state is AppState.ACCEPTED:
        for quota in app.quotas:
            if not may_start(quota, app.app_id):
                return scene.wakeups.running_limits.get(quota)
    return None


def _report_may_start(scene: Scene, app: Application) -> Iterable[Check]:
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


def _quota(scene: Scene, app: Application, ask_class: AskClass) -> Blocker | None:
    items = ask_class.items
    for quota in app.quotas:
        if quota.max is not None and excess(quota, items):
            return scene.wakeups.shortages.get(quota, ask_class.shape)
    return None


def _report_quota(scene: Scene, app: Application, ask_class: AskClass) -> Iterable[Check]:
    for quota in app.quotas:
        short = excess(quota, ask_class.items)
        limit = None if quota.max is None else dict(quota.max)
        if isinstance(quota, Queue):
            yield QueueCheck(
                queue=quota.path,
                requested=ask_class.resources,
                allocated=dict(quota.allocated),
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
                allocated=dict(quota.allocated),
                max=limit,
                short=short,
            )


def _answers(scene: Scene, app: Application, ask_class: AskClass) -> Blocker | None:
    return scene.predicates.owed if scene.predicates.full else None


def _report_answers(scene: Scene, app: Application, ask_class: AskClass) -> Iterable[Check]:
    yield AnswersCheck(waiting=scene.predicates.waiting, most=scene.predicates.most)


APPLICATION_CHECKS = (
    # It needs a look at the application only.
    ApplicationCheck(_back_off, _report_back_off, spares_reserved=True),
    # Before any ask, as it stops all of them; behind the back-off, which is over at a known time.
    ApplicationCheck(_may_start, _report_may_start),
)

ASK_CHECKS = (
    # Users and groups come before queues: where a limit is in the way, preemption does not help
    # (spec § 8.3c). Both come before the nodes, as they are fewer.
    AskCheck(_quota, _report_quota),
    # A node that is found could not be asked about.
    AskCheck(_answers, _report_answers, only_with_predicate=True),
)
"""What comes before the nodes. These come last, as they are the dearest: `NodeIndex.best`."""

_WITHOUT_PREDICATE = tuple(check for check in ASK_CHECKS if not check.only_with_predicate)


def application_blocker(
    scene: Scene, app: Application, *, reserved: bool = False
) -> Blocker | None:
    """The first thing that stops all asks of the application, or those that have a node."""
    for check in APPLICATION_CHECKS:
        if reserved and check.spares_reserved:
            continue
        blocker = check.blocker(scene, app)
        if blocker is not None:
            return blocker
    return None


def ask_blocker(scene: Scene, app: Application, ask_class: AskClass) -> Blocker | None:
    """The first thing before the nodes that stops asks of the class."""
    checks = _WITHOUT_PREDICATE if ask_class.predicate is None else ASK_CHECKS
    for check in checks:
        blocker = check.blocker(scene, app, ask_class)
        if blocker is not None:
            return blocker
    return None
