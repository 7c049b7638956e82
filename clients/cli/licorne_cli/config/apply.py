"""`licorne config apply`: a file comes into force, unless somebody else was faster."""

import argparse

import grpc

from licorne.v1.admin_pb2 import UpdateConfigurationRequest, UpdateConfigurationResponse
from licorne.v1.admin_pb2_grpc import AdminStub
from licorne_cli.config.files import (
    add_file_argument,
    add_rm_argument,
    chosen_rm,
    file_name,
    read_file,
    validated,
)
from licorne_cli.config.force import add_force_arguments, put_into_force
from licorne_cli.connection.channel import add_connection_arguments, with_channel

EXAMPLES = (
    ("licorne config apply queues.yaml", "see what changes, and agree"),
    (
        'licorne config apply queues.yaml my-cluster --yes --comment "more for batch"',
        "without being asked, for one of several RMs",
    ),
    ("licorne config apply queues.yaml --base 3", "only if revision 3 is in force still"),
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The arguments of `licorne config apply`."""
    add_file_argument(parser)
    add_rm_argument(parser)
    add_force_arguments(parser)
    add_connection_arguments(parser, partition=False, forms=("text",))


def run(args: argparse.Namespace) -> int:
    """Check, show, ask and apply; the exit code."""
    return with_channel(args, lambda channel: apply(channel, args))


def apply(channel: grpc.Channel, args: argparse.Namespace) -> None:
    """Put the file into force."""
    text = read_file(args)
    stub = AdminStub(channel)
    rm_id = chosen_rm(channel, args)
    validated(stub, args, text)

    def send(base: int) -> UpdateConfigurationResponse:
        request = UpdateConfigurationRequest(
            rm_id=rm_id, config=text, base_revision=base, comment=args.comment
        )
        return stub.UpdateConfiguration(request, timeout=args.timeout)

    put_into_force(stub, rm_id, args, file_name(args), text, send)
