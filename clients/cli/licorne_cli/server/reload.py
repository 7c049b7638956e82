"""`licorne reload`: the server reads its `--config` file again."""

import argparse

import grpc

from licorne.v1.admin_pb2 import ReloadConfigurationRequest, ReloadedRm
from licorne.v1.admin_pb2_grpc import AdminStub
from licorne_cli.connection.channel import add_connection_arguments, with_channel
from licorne_cli.failures import RefusedError
from licorne_cli.output.text import DATA_FORMS, print_data, print_table, printable, say, to_plain

EXAMPLES = (("licorne reload", "after the file was edited; the server also notices that by itself"),)
HEADERS = ("RM", "REVISION", "RESULT")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The arguments of `licorne reload`."""
    add_connection_arguments(parser, partition=False)


def run(args: argparse.Namespace) -> int:
    """Have it read, and print what became of each RM that runs it; the exit code."""
    return with_channel(args, lambda channel: act(channel, args))


def act(channel: grpc.Channel, args: argparse.Namespace) -> None:
    """Have it read and print.

    Raises:
        RefusedError: the file cannot be used, or an RM goes on with what it had.
    """
    request = ReloadConfigurationRequest()
    answer = AdminStub(channel).ReloadConfiguration(request, timeout=args.timeout)
    if args.output in DATA_FORMS:
        print_data(to_plain(answer), args.output)
    else:
        say("the file was read: it has changed" if answer.changed else "nothing is new in the file")
        print_table(HEADERS, [row(rm) for rm in answer.rms])
    refused = [printable(rm.rm_id) for rm in answer.rms if rm.refusal]
    if refused:
        raise RefusedError([f"licorne: not taken by {', '.join(refused)}"])


def row(rm: ReloadedRm) -> tuple[str, ...]:
    """One line of the table."""
    result = rm.refusal or ("changed" if rm.changed else "the same as before")
    return (printable(rm.rm_id), str(rm.revision), printable(result))
