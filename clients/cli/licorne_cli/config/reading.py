"""Actions of `licorne config` that change nothing: `get`, `history`, `validate` and `diff`."""

import argparse
import sys
from collections.abc import Iterator
from difflib import unified_diff
from functools import partial

import grpc

from licorne.v1.admin_pb2 import ConfigurationChange, GetConfigurationResponse, ValidateConfigurationRequest
from licorne.v1.admin_pb2_grpc import AdminStub
from licorne_cli.config.files import (
    add_file_argument,
    add_rm_argument,
    chosen_rm,
    file_name,
    read_file,
    revisions_of,
    running_configuration,
    validated,
)
from licorne_cli.connection.channel import add_connection_arguments, served
from licorne_cli.failures import OK, REFUSED, RefusedError
from licorne_cli.output.text import (
    DATA_FORMS,
    NOTHING,
    print_data,
    print_json,
    print_table,
    printable,
    say,
    shown_time,
    to_plain,
)
from licorne_cli.parsing.parser import Command, argument, revision

FORMS = ("text", *DATA_FORMS)
"""Output forms of the actions that print lines."""


def get(channel: grpc.Channel, args: argparse.Namespace) -> None:
    """Print the configuration in force for an RM, exactly as submitted."""
    stub = AdminStub(channel)
    rm_id = chosen_rm(channel, args)
    found = (
        revisions_of(stub, rm_id, args, args.revision)[0]
        if args.revision
        else running_configuration(stub, rm_id, args)
    )
    if isinstance(found, GetConfigurationResponse):
        for line in remarks(found):
            say(line)
    if args.output == "json":
        print_json(to_plain(found))
    else:
        sys.stdout.write(found.config)


def remarks(found: GetConfigurationResponse) -> Iterator[str]:
    """Warnings about a configuration whose text is misleading."""
    rm = f"RM {printable(found.rm_id)}"
    if not found.registered:
        yield f"{rm} is not registered now: this comes into force when it registers"
    if found.instead_of:
        yield f"{rm} runs revision {found.revision} instead: {printable(found.comment)}"


GET = Command(
    (
        add_rm_argument,
        argument("--revision", type=revision, default=0, metavar="N", help="an earlier one of the history"),
        partial(add_connection_arguments, partition=False, forms=("yaml", "json")),
    ),
    served(get),
    (
        ("licorne config get > queues.yaml", "what is in force, to edit it"),
        ("licorne config get my-cluster --revision 3", "an earlier one"),
        ("licorne config get -o json", "with its revision, and who brought it"),
    ),
)

HEADERS = ("REVISION", "TIME", "SOURCE", "BY", "CHECKSUM", "COMMENT")
HEADS = HEADERS.index("SOURCE") + 1
"""Number of columns in the first line of an item, if a terminal is too narrow for the table."""
SHORT = 12
"""Number of characters of a checksum in a table."""


def history(channel: grpc.Channel, args: argparse.Namespace) -> None:
    """Print the revisions of an RM with their sources and comments."""
    rm_id = chosen_rm(channel, args)
    revisions = revisions_of(AdminStub(channel), rm_id, args)
    if args.output in DATA_FORMS:
        data = {"rmId": rm_id, "revisions": [to_plain(revision) for revision in revisions]}
        print_data(data, args.output)
        return
    rows = [
        (
            str(revision.revision),
            shown_time(revision.time),
            revision.source,
            printable(revision.by) or NOTHING,
            revision.checksum[:SHORT],
            printable(revision.comment) or NOTHING,
        )
        for revision in revisions
    ]
    print_table(HEADERS, rows, heads=HEADS)


HISTORY = Command(
    (
        add_rm_argument,
        partial(add_connection_arguments, partition=False),
    ),
    served(history),
    (
        ("licorne config history", "what was in force, the latest first"),
        ("licorne config history my-cluster -o json", "for programs"),
    ),
    "The latest comes first: it is in force.\n",
)


def validate(channel: grpc.Channel, args: argparse.Namespace) -> int:
    """Print every problem that the server finds in a file."""
    checksum, problems = "", list[str]()
    try:
        checksum = validated(AdminStub(channel), args, read_file(args), strict=args.strict).checksum
    except RefusedError as error:
        problems += error.lines
    if args.output in DATA_FORMS:
        print_data({"valid": not problems, "checksum": checksum, "problems": problems}, args.output)
    elif problems:
        print(*problems, sep="\n")
    else:
        say(f"{file_name(args)}: valid, checksum {checksum}")
    return REFUSED if problems else OK


VALIDATE = Command(
    (
        add_file_argument,
        argument("--strict", action="store_true", help="warnings are errors"),
        partial(add_connection_arguments, partition=False, forms=FORMS),
    ),
    served(validate),
    (
        ("licorne config validate queues.yaml", "all problems of a file"),
        (
            "licorne config validate --strict - < queues.yaml",
            "what another command writes; refuse what is dubious too",
        ),
    ),
    "It exits with 4 if the file is refused. `licorne validate-config` does the same without a server.\n",
)

DIFFERENT = 1
WRONG_USAGE = 5
UNKNOWN = "not known, as one of the two is not valid: see config validate"
DIFF_NOTES = """\
It exits with 0 if nothing differs and with 1 if something does. Trouble is more than 1, as with
diff: 2 to 4 as elsewhere, and 5 for wrong usage.
"""


def diff(channel: grpc.Channel, args: argparse.Namespace) -> int:
    """Print the differences between a file and the configuration in force."""
    text = read_file(args)
    rm_id = chosen_rm(channel, args)
    stub = AdminStub(channel)
    running = running_configuration(stub, rm_id, args)
    differences = diff_lines(f"{rm_id} revision {running.revision}", running.config, file_name(args), text)
    changes = summary(stub, rm_id, text, args)
    if args.output in DATA_FORMS:
        data = {"revision": running.revision, "diff": differences, "changes": changes}
        print_data(data, args.output)
    else:
        print_differences(differences, changes)
    return DIFFERENT if differences else OK


def summary(stub: AdminStub, rm_id: str, text: str, args: argparse.Namespace) -> list[str] | None:
    """A line for each changed queue or partition, and for each changed value in it.

    Empty if there are no differences; None if either configuration is invalid.
    """
    request = ValidateConfigurationRequest(config=text, compare_rm_id=rm_id)
    answer = stub.ValidateConfiguration(request, timeout=args.timeout)
    if not answer.compared:
        return None
    lines = [line for change in answer.changes for line in _changed(change)]
    more = answer.change_count - len(answer.changes)
    return [*map(printable, lines), *([f"and {more} more"] if more else [])]


def _changed(change: ConfigurationChange) -> Iterator[str]:
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


def diff_lines(before: str, old: str, after: str, new: str) -> list[str]:
    """A unified diff of two texts."""
    lines = unified_diff(old.splitlines(), new.splitlines(), printable(before), printable(after), lineterm="")
    return list(map(printable, lines))


def print_differences(differences: list[str], changes: list[str] | None) -> None:
    """Print the diff, followed by the changes by queue."""
    for line in differences:
        print(line)
    if changes is None:
        print(f"\nwhat changes: {UNKNOWN}")
    elif changes:
        print("\nwhat changes:", *changes, sep="\n  ")
    elif differences:
        print("\nwhat changes: nothing but the text")


DIFF = Command(
    (
        add_file_argument,
        add_rm_argument,
        partial(add_connection_arguments, partition=False, forms=FORMS),
        lambda parser: parser.set_defaults(usage_error=WRONG_USAGE),
    ),
    served(diff),
    (
        ("licorne config diff queues.yaml", "what a file would change"),
        ("licorne config diff queues.yaml my-cluster", "for one of several RMs"),
    ),
    DIFF_NOTES,
)
