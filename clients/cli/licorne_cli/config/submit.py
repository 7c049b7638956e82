"""`licorne submit --dry-run`: where would this application go, who would be evicted?"""

import argparse

import grpc

from licorne.v1.admin_pb2 import PlanSubmissionRequest, PlanSubmissionResponse
from licorne.v1.admin_pb2_grpc import AdminStub
from licorne_cli.config.files import add_rm_argument, chosen_rm, file_name, read_file, refused_lines
from licorne_cli.config.plan import INCOMPLETE, PLAN_SECONDS, WORSE
from licorne_cli.config.plan_lines import print_lines, submission_lines
from licorne_cli.connection.channel import OK, add_connection_arguments, with_channel
from licorne_cli.failures import RefusedError, UsageError
from licorne_cli.output.text import DATA_FORMS, print_data, to_plain

EXAMPLES = (
    ("licorne submit --dry-run job.yaml", "where it would go"),
    (
        "licorne submit --dry-run job.yaml my-cluster -o json",
        "for one of several RMs, and for programs",
    ),
    ("licorne submit --dry-run - < job.yaml", "what another command writes"),
)
NOTES = """\
A file has `application`, `user`, and as wanted `partition`, `queue`, `groups`, `tags`, `gangstyle`
and `asks`. An ask has `resources` in the units of a configuration, and as wanted `name`, `count`,
`priority`, `taskgroup`, `placeholder`, `requirednode`, `allowpreemptself`, `allowpreemptother` and
`tags`.

It exits with 0 if all asks would be placed and nobody had to go for them, with 6 if not, and with 7
if all would be placed as far as the plan goes, and it is not complete.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The arguments of `licorne submit`."""
    parser.epilog = NOTES
    parser.add_argument("file", metavar="FILE", help="an application in YAML or JSON; - for stdin")
    add_rm_argument(parser)
    parser.add_argument("--dry-run", action="store_true", help="say what would happen; must be given")
    add_connection_arguments(parser, partition=False, forms=("text", *DATA_FORMS))
    parser.set_defaults(timeout=PLAN_SECONDS)


def run(args: argparse.Namespace) -> int:
    """Print where the application would go; the exit code."""
    plans: list[PlanSubmissionResponse] = []
    code = with_channel(args, lambda channel: show(channel, args, plans))
    return judged(plans[0]) if plans and code == OK else code


def show(channel: grpc.Channel, args: argparse.Namespace, plans: list[PlanSubmissionResponse]) -> None:
    """Ask and print; `plans` has the plan then."""
    if not args.dry_run:
        raise UsageError(
            "applications are submitted by their RM; with --dry-run it is said what would happen"
        )
    text = read_file(args, "application")
    request = PlanSubmissionRequest(rm_id=chosen_rm(channel, args), text=text)
    try:
        plan = AdminStub(channel).PlanSubmission(request, timeout=args.timeout)
    except grpc.RpcError as error:
        lines = refused_lines(file_name(args), error)
        if lines:
            raise RefusedError(lines) from None
        raise
    plans.append(plan)
    if args.output in DATA_FORMS:
        print_data(to_plain(plan), args.output)
        return
    print_lines(submission_lines(plan))


def judged(plan: PlanSubmissionResponse) -> int:
    """The exit code for a plan."""
    if not plan.accepted or plan.victims or any(not ask.node_id for ask in plan.asks):
        return WORSE
    return OK if plan.complete else INCOMPLETE
