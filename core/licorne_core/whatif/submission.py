"""Plan of a submission: the queue of an application, and the nodes of its asks (spec §§ 3, 8)."""

from collections.abc import Sequence
from dataclasses import replace

from licorne_core.messages.commands import NewApplication, UpdateAllocations, UpdateApplications
from licorne_core.messages.effects import AllocationsRejected, ApplicationsAnswered
from licorne_core.messages.plans import PlannedAsk, PlannedVictim, Spent, SubmissionPlan
from licorne_core.model.apps.admission import checked_user, is_forced
from licorne_core.model.apps.application import Application
from licorne_core.partitions.partition import Partition
from licorne_core.standard.placement.extension import placer_of
from licorne_core.values.asks import Ask
from licorne_core.values.errors import Rejected
from licorne_core.values.ids import AllocationKey, PartitionName, RmId
from licorne_core.whatif.configuration import victim_of
from licorne_core.whatif.rehearsal import MOST_AHEAD, CopiedCore, PlacedAsk, Rehearsal, seconds_ahead
from licorne_core.whatif.stops import ObstacleFinder, WaitingAsk

REJECTED = "REJECTED"
"""Code of an ask that would be rejected."""

GONE = "GONE"
"""Code of an ask that the core would drop, for instance because its gang fails."""


def plan_submission(
    scheduler: CopiedCore,
    rm_id: RmId,
    new: NewApplication,
    asks: Sequence[Ask],
    now: float,
    spent: Spent = lambda: 0.0,
) -> SubmissionPlan:
    """Plan the submission of an application and its asks by a registered RM at `now`, in unix seconds.

    The keys of the asks must differ. The scheduler is changed, so pass a copy. `spent` returns the
    spent share of the budget. A plan is incomplete if the budget was spent.
    """
    rehearsal = Rehearsal(scheduler, rm_id, now, spent)
    partition = rehearsal.named(new.partition)
    holds = rehearsal.holds
    name = PartitionName("") if partition is None else partition.name
    rule = "" if partition is None else _rule(partition, new)
    for effect in rehearsal.carry_out(UpdateApplications(rm_id=rm_id, new=[new])):
        if isinstance(effect, ApplicationsAnswered) and effect.rejected:
            return SubmissionPlan(accepted=False, rejection=effect.rejected[0].reason, partition=name)
    assert partition is not None, "an application was taken into no partition"
    app = partition.applications[new.app_id]
    refused = {
        rejection.key: rejection.reason
        for effect in rehearsal.carry_out(UpdateAllocations(rm_id=rm_id, asks=asks))
        if isinstance(effect, AllocationsRejected)
        for rejection in effect.rejections
    }
    ahead = seconds_ahead([partition], now)
    horizon = min(ahead, MOST_AHEAD)
    rehearsal.go_on(now + horizon, lambda: app.pending_count == 0)
    return SubmissionPlan(
        accepted=True,
        partition=name,
        queue=app.queue_path,
        rule=rule,
        asks=_asks(rehearsal, partition, app, asks, refused),
        victims=_victims(rehearsal, app),
        horizon=horizon,
        holds=holds,
        complete=not (rehearsal.is_cut_short or holds) and ahead <= MOST_AHEAD,
    )


def _rule(partition: Partition, new: NewApplication) -> str:
    """Placement rule of the application; empty if there are no rules, or none places it."""
    if not partition.config.placement_rules:
        return ""
    try:
        user = checked_user(new, forced=is_forced(new))
        return placer_of(partition).rule_for(replace(new, user=user), partition.tree)
    except Rejected:
        return ""


def _asks(
    rehearsal: Rehearsal,
    partition: Partition,
    app: Application,
    asks: Sequence[Ask],
    refused: dict[AllocationKey, str],
) -> list[PlannedAsk]:
    """Outcome of each ask, in the order of arrival."""
    placed = {
        made.allocation.key: made
        for made in rehearsal.placed
        if made.partition == partition.name and made.allocation.ask.app_id == app.app_id
    }
    obstacles = ObstacleFinder(partition)
    return [_planned(partition, app, ask, placed, refused, obstacles) for ask in asks]


def _planned(
    partition: Partition,
    app: Application,
    ask: Ask,
    placed: dict[AllocationKey, PlacedAsk],
    refused: dict[AllocationKey, str],
    obstacles: ObstacleFinder,
) -> PlannedAsk:
    node, code, message, seconds = "", "", "", 0.0
    request = app.requests.get(ask.key)
    if ask.key in refused:
        code, message = REJECTED, refused[ask.key]
    elif ask.key in placed:
        made = placed[ask.key]
        node, seconds = made.allocation.node_id, made.seconds
    elif request is None:
        code, message = GONE, f"application {app.app_id} is {app.state.value}"
    elif request.is_pending:
        waiting = WaitingAsk(partition, app, request, obstacles.first_failing(app, request))
        code, message = waiting.code, waiting.message()
    return PlannedAsk(
        partition=partition.name,
        app_id=app.app_id,
        key=ask.key,
        queue=app.queue_path,
        node_id=node,
        code=code,
        message=message,
        resources=ask.ask_class.resources,
        seconds=seconds,
    )


def _victims(rehearsal: Rehearsal, app: Application) -> list[PlannedVictim]:
    """Victims of preemption for the application. Other victims do not depend on it."""
    return [
        victim_of(stopped) for stopped in rehearsal.stopped if stopped.record.beneficiary_app_id == app.app_id
    ]
