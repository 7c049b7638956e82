"""`licorne config diff`: what a file would change.

Also here:

* Differences between a text and the configuration in force, queue by queue, as the server says.
"""

import argparse
from collections.abc import Iterator
from difflib import unified_diff

import grpc

from licorne.v1.admin_pb2 import ConfigurationChange, ValidateConfigurationRequest
from licorne.v1.admin_pb2_grpc import AdminStub
from licorne_cli.config.files import (
    add_file_argument,
    add_rm_argument,
    chosen_rm,
    file_name,
    read_file,
    running_configuration,
)
from licorne_cli.connection.channel import OK, USAGE, add_connection_arguments, with_channel
from licorne_cli.output.text import DATA_FORMS, NOTHING, print_data, printable


def summary(stub: AdminStub, rm_id: str, text: str, args: argparse.Namespace) -> list[str] | None:
    """A line for each queue or partition that differs, and for each value in it.

    Empty where nothing differs; None where one of the two is no valid configuration.
    """
    request = ValidateConfigurationRequest(config=text, compare_rm_id=rm_id)
    answer = stub.ValidateConfiguration(request, timeout=args.timeout)
    if not answer.compared:
        return None
    lines = [line for change in answer.changes for line in _lines(change)]
    more = answer.change_count - len(answer.changes)
    return [*map(printable, lines), *([f"and {more} more"] if more else [])]


def _lines(change: ConfigurationChange) -> Iterator[str]:
    if change.change == "added":
        pairs = "; ".join(f"{value.name}: {value.after}" for value in change.values)
        yield f"+ {change.name} ({pairs})" if pairs else f"+ {change.name}"
        return
    if change.change == "removed":
        yield f"- {change.name}"
        return
    yield f"~ {change.name}"
    for value in change.values:
        yield f"    {value.name}: {value.before or NOTHING} -> {value.after or NOTHING}"


DIFFERENT = 1
WRONG_USAGE = 5
EXAMPLES = (
    ("licorne config diff queues.yaml", "what a file would change"),
    ("licorne config diff queues.yaml my-cluster", "for one of several RMs"),
)
UNKNOWN = "not known, as one of the two is not valid: see config validate"
NOTES = """\
It exits with 0 if nothing differs and with 1 if something does. Trouble is more than 1, as with
diff: 2 to 4 as elsewhere, and 5 for wrong usage.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The arguments of `licorne config diff`."""
    parser.epilog = NOTES
    add_file_argument(parser)
    add_rm_argument(parser)
    add_connection_arguments(parser, partition=False, forms=("text", *DATA_FORMS))
    parser.set_defaults(usage_error=WRONG_USAGE)


def run(args: argparse.Namespace) -> int:
    """Print what differs; the exit code."""
    differences: list[str] = []
    code = with_channel(args, lambda channel: compare(channel, args, differences))
    if code != OK:
        return WRONG_USAGE if code == USAGE else code
    return DIFFERENT if differences else OK


def compare(channel: grpc.Channel, args: argparse.Namespace, differences: list[str]) -> None:
    """Ask and print; `differences` are the lines of the diff then."""
    text = read_file(args)
    rm_id = chosen_rm(channel, args)
    stub = AdminStub(channel)
    running = running_configuration(stub, rm_id, args)
    before = f"{rm_id} revision {running.revision}"
    differences += diff_lines(before, running.config, file_name(args), text)
    changes = summary(stub, rm_id, text, args)
    if args.output in DATA_FORMS:
        data = {"revision": running.revision, "diff": differences, "changes": changes}
        print_data(data, args.output)
    else:
        print_differences(differences, changes)


def diff_lines(before: str, old: str, after: str, new: str) -> Iterator[str]:
    """A unified diff of two texts."""
    lines = unified_diff(old.splitlines(), new.splitlines(), printable(before), printable(after), lineterm="")
    return map(printable, lines)


def print_differences(differences: list[str], changes: list[str] | None) -> None:
    """The diff, and below it what it means queue by queue."""
    for line in differences:
        print(line)
    if changes is None:
        print(f"\nwhat changes: {UNKNOWN}")
    elif changes:
        print("\nwhat changes:")
        for line in changes:
            print(f"  {line}")
    elif differences:
        print("\nwhat changes: nothing but the text")
