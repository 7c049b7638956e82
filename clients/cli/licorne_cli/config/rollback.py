"""`licorne config rollback`: an earlier configuration comes into force again, as a new revision."""

import argparse

import grpc

from licorne.v1.admin_pb2 import RollBackConfigurationRequest, RollBackConfigurationResponse
from licorne.v1.admin_pb2_grpc import AdminStub
from licorne_cli.config.files import add_rm_argument, chosen_rm, revisions_of, running_configuration
from licorne_cli.config.force import add_force_arguments, put_into_force
from licorne_cli.connection.channel import add_connection_arguments, with_channel
from licorne_cli.failures import NotFoundError
from licorne_cli.parsing.parser import revision

EXAMPLES = (
    ("licorne config rollback", "back to the revision before"),
    ("licorne config rollback my-cluster --to 3 --yes", "to that one, without being asked"),
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The arguments of `licorne config rollback`."""
    add_rm_argument(parser)
    parser.add_argument(
        "--to", type=revision, default=0, metavar="N", help="revision (default: the one before)"
    )
    add_force_arguments(parser)
    add_connection_arguments(parser, partition=False, forms=("text",))


def run(args: argparse.Namespace) -> int:
    """Show, ask and roll back; the exit code."""
    return with_channel(args, lambda channel: roll_back(channel, args))


def roll_back(channel: grpc.Channel, args: argparse.Namespace) -> None:
    """Put the text of an earlier revision into force.

    Raises:
        NotFoundError: there is no revision before the one in force.
    """
    stub = AdminStub(channel)
    rm_id = chosen_rm(channel, args)
    number = args.to or running_configuration(stub, rm_id, args).revision - 1
    if not number:
        raise NotFoundError(f"RM {rm_id} has had no other configuration than the first")
    [wanted] = revisions_of(stub, rm_id, args, number)

    def send(base: int) -> RollBackConfigurationResponse:
        request = RollBackConfigurationRequest(
            rm_id=rm_id, revision=number, base_revision=base, comment=args.comment
        )
        return stub.RollBackConfiguration(request, timeout=args.timeout)

    put_into_force(stub, rm_id, args, f"revision {number}", wanted.config, send)
