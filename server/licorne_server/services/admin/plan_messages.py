"""Plans into responses of `licorne.v1`."""

from functools import partial

from licorne.v1 import admin_pb2 as pb
from licorne_core.values.errors import Problem
from licorne_core.whatif import ConfigurationPlan, ConfigurationPlanRefused, SubmissionPlan
from licorne_core.whatif.plans import (
    DefaultedValue,
    ExceededLimit,
    PlanCounts,
    PlannedAsk,
    PlannedQueue,
    PlannedValue,
    PlannedVictim,
)
from licorne_server.services.reports import filled

_value = filled(pb.PlannedValue, PlannedValue)
_queue = filled(pb.PlannedQueue, PlannedQueue, {"values": ("values", partial(map, _value))})
_limit = filled(
    pb.ExceededLimit,
    ExceededLimit,
    {
        "user": lambda limit: limit.name if limit.kind == "user" else "",
        "group": lambda limit: limit.name if limit.kind == "group" else "",
    },
)
_ask = filled(
    pb.PlannedAsk,
    PlannedAsk,
    {"application_id": "app_id", "allocation_key": "key", "resource": "resources"},
)
_victim = filled(
    pb.PlannedVictim,
    PlannedVictim,
    {
        "application_id": "app_id",
        "allocation_key": "key",
        "for_application_id": "beneficiary_app_id",
        "for_allocation_key": "beneficiary_key",
        "resource": "resources",
    },
)
_configuration = filled(
    pb.PlanConfigurationResponse,
    ConfigurationPlan,
    {
        "base_revision": None,
        "horizon_seconds": "horizon",
        "queues": ("queues", partial(map, _queue)),
        "exceeded_limits": ("exceeded_limits", partial(map, _limit)),
        "placed": ("placed", partial(map, _ask)),
        "blocked": ("blocked", partial(map, _ask)),
        "victims": ("victims", partial(map, _victim)),
        "defaults": ("defaults", partial(map, filled(pb.DefaultedValue, DefaultedValue))),
        "counts": ("counts", filled(pb.PlanCounts, PlanCounts)),
    },
)
problem_message = filled(pb.ConfigurationProblem, Problem)
_submission = filled(
    pb.PlanSubmissionResponse,
    SubmissionPlan,
    {
        "application_id": None,
        "horizon_seconds": "horizon",
        "asks": ("asks", partial(map, _ask)),
        "victims": ("victims", partial(map, _victim)),
    },
)


def configuration_plan(plan: ConfigurationPlan, base: int) -> pb.PlanConfigurationResponse:
    """The effect of a configuration; `base` is the revision in force."""
    message = _configuration(plan)
    message.base_revision = base
    return message


def submission_plan(plan: SubmissionPlan, app_id: str) -> pb.PlanSubmissionResponse:
    """The placement of the application of that name."""
    message = _submission(plan)
    message.application_id = app_id
    return message


def refused_plan(refused: ConfigurationPlanRefused) -> pb.ValidateConfigurationResponse:
    """The refusal of a configuration."""
    problems = map(problem_message, refused.problems)
    return pb.ValidateConfigurationResponse(reason=refused.reason, problems=problems)
