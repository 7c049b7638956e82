"""`licorne config plan`: what would happen if a file were put into force now."""

import argparse

import grpc

from licorne.v1.admin_pb2 import PlanConfigurationRequest, PlanConfigurationResponse
from licorne.v1.admin_pb2_grpc import AdminStub
from licorne_cli.config.files import (
    add_file_argument,
    add_rm_argument,
    chosen_rm,
    file_name,
    read_file,
    refused_lines,
)
from licorne_cli.config.plan_lines import configuration_lines, print_lines
from licorne_cli.connection.channel import OK, add_connection_arguments, with_channel
from licorne_cli.failures import RefusedError
from licorne_cli.output.text import DATA_FORMS, print_data, printable, say, to_plain
from licorne_cli.parsing.parser import revision

WORSE = 6
INCOMPLETE = 7
PLAN_SECONDS = 60.0
"""Default of `--timeout` for plans."""

EXAMPLES = (
    ("licorne config plan queues.yaml", "who would be better or worse off"),
    ("licorne config plan queues.yaml my-cluster --base 3", "only if revision 3 is in force still"),
    ("licorne config plan queues.yaml -o json", "for programs"),
)
NOTES = """\
It exits with 0 if nobody is worse off, with 6 if somebody is, and with 7 if the plan is not
complete and shows nobody who is. Worse off are: victims, users and groups further above a limit
than now, queues further above their maximum, queues that drain, and asks that nothing stops now and
something would then.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The arguments of `licorne config plan`."""
    parser.epilog = NOTES
    add_file_argument(parser)
    add_rm_argument(parser)
    parser.add_argument(
        "--base",
        type=revision,
        default=0,
        metavar="REVISION",
        help="refuse if another revision is in force by now",
    )
    add_connection_arguments(parser, partition=False, forms=("text", *DATA_FORMS))
    parser.set_defaults(timeout=PLAN_SECONDS)


def run(args: argparse.Namespace) -> int:
    """Print what would happen; the exit code."""
    plans: list[PlanConfigurationResponse] = []
    code = with_channel(args, lambda channel: show(channel, args, plans))
    return judged(plans[0]) if plans and code == OK else code


def show(channel: grpc.Channel, args: argparse.Namespace, plans: list[PlanConfigurationResponse]) -> None:
    """Ask and print; `plans` has the plan then."""
    text = read_file(args)
    rm_id = chosen_rm(channel, args)
    request = PlanConfigurationRequest(rm_id=rm_id, config=text, base_revision=args.base)
    try:
        plan = AdminStub(channel).PlanConfiguration(request, timeout=args.timeout)
    except grpc.RpcError as error:
        lines = refused_lines(file_name(args), error)
        if not lines:
            raise
        raise RefusedError(lines) from None
    plans.append(plan)
    for warning in plan.warnings:
        say(printable(f"{file_name(args)}:{warning} (warning)"))
    if args.output in DATA_FORMS:
        print_data(to_plain(plan), args.output)
        return
    print_lines(configuration_lines(rm_id, plan))


def judged(plan: PlanConfigurationResponse) -> int:
    """The exit code for a plan."""
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
