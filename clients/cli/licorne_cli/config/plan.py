"""`licorne config plan` and `licorne apps plan`: the predicted outcome of a change."""

import argparse
from collections.abc import Sequence
from functools import partial

import grpc

from licorne.v1.admin_pb2 import (
    PlanConfigurationRequest,
    PlanConfigurationResponse,
    PlanSubmissionRequest,
    PlanSubmissionResponse,
)
from licorne.v1.admin_pb2_grpc import AdminStub
from licorne_cli.config.files import (
    add_file_argument,
    add_rm_argument,
    chosen_rm,
    file_name,
    read_file,
    refused_by_line,
)
from licorne_cli.config.plan_lines import configuration_lines, print_lines, submission_lines
from licorne_cli.connection.channel import add_connection_arguments, served
from licorne_cli.failures import OK
from licorne_cli.output.text import DATA_FORMS, print_data, printable, say, to_plain
from licorne_cli.parsing.parser import Arguments, Command, argument, revision

WORSE = 6
INCOMPLETE = 7
PLAN_SECONDS = 60.0
"""Default of `--timeout` for plans, in seconds."""

PLAN_NOTES = """\
It exits with 0 if nobody is worse off, with 6 if somebody is, and with 7 if the plan is not
complete and shows nobody who is. Worse off are: victims, users and groups further above a limit
than now, queues further above their maximum, queues that drain, and asks that nothing stops now and
something would then.
"""
APPLICATION_NOTES = """\
A file has `application`, `user`, and as wanted `partition`, `queue`, `groups`, `tags`, `gangstyle`
and `asks`. An ask has `resources` in the units of a configuration, and as wanted `name`, `count`,
`priority`, `taskgroup`, `placeholder`, `requirednode`, `allowpreemptself`, `allowpreemptother` and
`tags`.

It exits with 0 if all asks would be placed and nobody had to go for them, with 6 if not, and with 7
if all would be placed as far as the plan goes, and it is not complete.
"""


COMMON: Sequence[Arguments] = (
    partial(add_connection_arguments, partition=False, forms=("text", *DATA_FORMS)),
    lambda parser: parser.set_defaults(timeout=PLAN_SECONDS),
)


def plan(channel: grpc.Channel, args: argparse.Namespace) -> int:
    """Print the predicted outcome of putting a file into force."""
    text = read_file(args)
    rm_id = chosen_rm(channel, args)
    request = PlanConfigurationRequest(rm_id=rm_id, config=text, base_revision=args.base)
    with refused_by_line(file_name(args)):
        found = AdminStub(channel).PlanConfiguration(request, timeout=args.timeout)
    for warning in found.warnings:
        say(printable(f"{file_name(args)}:{warning} (warning)"))
    if args.output in DATA_FORMS:
        print_data(to_plain(found), args.output)
    else:
        print_lines(configuration_lines(rm_id, found))
    return _judged(found)


def _judged(plan: PlanConfigurationResponse) -> int:
    counts = plan.counts
    worse = (
        counts.victims
        or counts.newly_exceeded
        or counts.queues_draining
        or counts.queues_over_max
        or counts.newly_blocked
    )
    if worse:
        return WORSE
    return OK if plan.complete or not plan.changed else INCOMPLETE


PLAN = Command(
    (
        add_file_argument,
        add_rm_argument,
        argument(
            "--base",
            type=revision,
            default=0,
            metavar="REVISION",
            help="refuse if another revision is in force by now",
        ),
        *COMMON,
    ),
    served(plan),
    (
        ("licorne config plan queues.yaml", "who would be better or worse off"),
        ("licorne config plan queues.yaml my-cluster --base 3", "only if revision 3 is in force still"),
        ("licorne config plan queues.yaml -o json", "for programs"),
    ),
    PLAN_NOTES,
)


def plan_submission(channel: grpc.Channel, args: argparse.Namespace) -> int:
    """Print the predicted nodes and victims of an application."""
    text = read_file(args, "application")
    request = PlanSubmissionRequest(rm_id=chosen_rm(channel, args), text=text)
    with refused_by_line(file_name(args)):
        found: PlanSubmissionResponse = AdminStub(channel).PlanSubmission(request, timeout=args.timeout)
    if args.output in DATA_FORMS:
        print_data(to_plain(found), args.output)
    else:
        print_lines(submission_lines(found))
    if not found.accepted or found.victims or any(not ask.node_id for ask in found.asks):
        return WORSE
    return OK if found.complete else INCOMPLETE


PLAN_APPLICATION = Command(
    (
        argument("file", metavar="FILE", help="an application in YAML or JSON; - for stdin"),
        add_rm_argument,
        *COMMON,
    ),
    served(plan_submission),
    (
        ("licorne apps plan job.yaml", "where it would go"),
        ("licorne apps plan job.yaml my-cluster -o json", "for one of several RMs, and for programs"),
        ("licorne apps plan - < job.yaml", "what another command writes"),
    ),
    APPLICATION_NOTES,
    "say where an application would go if it were submitted now",
)
