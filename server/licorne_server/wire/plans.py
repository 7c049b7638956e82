"""Plans into responses of `licorne.v1`."""

from collections.abc import Iterable

from licorne.v1 import admin_pb2 as pb
from licorne_core.whatif import ConfigurationPlan, ConfigurationPlanRefused, SubmissionPlan
from licorne_core.whatif.plans import (
    DefaultedValue,
    ExceededLimit,
    PlannedAsk,
    PlannedQueue,
    PlannedVictim,
)


def configuration_plan(plan: ConfigurationPlan, base: int) -> pb.PlanConfigurationResponse:
    """The effect of a configuration; `base` is the revision in force."""
    counts = plan.counts
    return pb.PlanConfigurationResponse(
        base_revision=base,
        checksum=plan.checksum,
        warnings=plan.warnings,
        changed=plan.changed,
        complete=plan.complete,
        horizon_seconds=plan.horizon,
        holds=plan.holds,
        queues=map(_queue, plan.queues),
        exceeded_limits=map(_limit, plan.exceeded_limits),
        placed=_asks(plan.placed),
        blocked=_asks(plan.blocked),
        victims=_victims(plan.victims),
        defaults=map(_default, plan.defaults),
        counts=pb.PlanCounts(
            queues=counts.queues,
            exceeded_limits=counts.exceeded_limits,
            placed=counts.placed,
            blocked=counts.blocked,
            victims=counts.victims,
            defaults=counts.defaults,
            queues_draining=counts.queues_draining,
            queues_over_max=counts.queues_over_max,
            newly_exceeded=counts.newly_exceeded,
            newly_blocked=counts.newly_blocked,
        ),
    )


def refused_plan(refused: ConfigurationPlanRefused) -> pb.ValidateConfigurationResponse:
    """The refusal of a configuration."""
    return pb.ValidateConfigurationResponse(
        reason=refused.reason,
        problems=[
            pb.ConfigurationProblem(
                path=problem.path,
                message=problem.message,
                line=problem.line,
                column=problem.column,
            )
            for problem in refused.problems
        ],
    )


def submission_plan(plan: SubmissionPlan, app_id: str) -> pb.PlanSubmissionResponse:
    """The placement of an application."""
    return pb.PlanSubmissionResponse(
        accepted=plan.accepted,
        rejection=plan.rejection,
        partition=plan.partition,
        queue=plan.queue,
        rule=plan.rule,
        complete=plan.complete,
        horizon_seconds=plan.horizon,
        holds=plan.holds,
        asks=_asks(plan.asks),
        victims=_victims(plan.victims),
        application_id=app_id,
    )


def _queue(queue: PlannedQueue) -> pb.PlannedQueue:
    return pb.PlannedQueue(
        partition=queue.partition,
        path=queue.path,
        change=queue.change,
        values=[
            pb.PlannedValue(name=value.name, before=value.before, after=value.after)
            for value in queue.values
        ],
        over_max=queue.over_max,
        over_max_before=queue.over_max_before,
        applications=queue.applications,
    )


def _limit(limit: ExceededLimit) -> pb.ExceededLimit:
    return pb.ExceededLimit(
        partition=limit.partition,
        queue=limit.queue,
        user=limit.name if limit.kind == "user" else "",
        group=limit.name if limit.kind == "group" else "",
        used=limit.used,
        limit=limit.limit,
        applications=limit.applications,
        max_applications=limit.max_applications,
        already=limit.already,
    )


def _asks(asks: Iterable[PlannedAsk]) -> Iterable[pb.PlannedAsk]:
    return (
        pb.PlannedAsk(
            partition=ask.partition,
            application_id=ask.app_id,
            allocation_key=ask.key,
            queue=ask.queue,
            node_id=ask.node_id,
            code=ask.code,
            message=ask.message,
            code_before=ask.code_before,
            resource=ask.resources,
            seconds=ask.seconds,
        )
        for ask in asks
    )


def _victims(victims: Iterable[PlannedVictim]) -> Iterable[pb.PlannedVictim]:
    return (
        pb.PlannedVictim(
            partition=victim.partition,
            application_id=victim.app_id,
            allocation_key=victim.key,
            queue=victim.queue,
            node_id=victim.node_id,
            rule=victim.rule,
            for_application_id=victim.beneficiary_app_id,
            for_allocation_key=victim.beneficiary_key,
            resource=victim.resources,
            seconds=victim.seconds,
        )
        for victim in victims
    )


def _default(value: DefaultedValue) -> pb.DefaultedValue:
    return pb.DefaultedValue(
        partition=value.partition,
        path=value.path,
        name=value.name,
        value=value.value,
        origin=value.origin,
    )
