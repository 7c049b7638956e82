"""`licorne log-level`: how much the server logs, shown or changed while it runs."""

import argparse

import grpc

from licorne.v1.admin_pb2 import GetLogLevelsRequest, GetLogLevelsResponse, SetLogLevelRequest
from licorne.v1.admin_pb2_grpc import AdminStub
from licorne_cli.connection.channel import add_connection_arguments, pages, with_channel
from licorne_cli.failures import UsageError
from licorne_cli.output.text import DATA_FORMS, NOTHING, print_data, print_table, printable

EXAMPLES = (
    ("licorne log-level", "which loggers have a level of their own"),
    ("licorne log-level core.scheduler debug", "more of one, and of those below it"),
    ("licorne log-level core.scheduler --reset", "and as before"),
)
HEADERS = ("LOGGER", "LEVEL", "WANTED BY")
LEVELS = ("debug", "info", "warning", "error")
OTHERS = "(all others)"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The arguments of `licorne log-level`."""
    add = parser.add_argument
    add(
        "words",
        nargs="*",
        metavar="[LOGGER] LEVEL",
        help=f"one of {', '.join(LEVELS)}, for a logger such as core.engine and those below it, or "
        "for all others",
    )
    add(
        "--reset",
        action="store_true",
        help="take the logger's own level away; without a logger, all go back to the start's",
    )
    add_connection_arguments(parser, partition=False)


def run(args: argparse.Namespace) -> int:
    """Change what is to be changed, and show the levels."""
    return with_channel(args, lambda channel: act(channel, args))


def act(channel: grpc.Channel, args: argparse.Namespace) -> None:
    """Change and show.

    Raises:
        UsageError: the arguments do not fit together.
    """
    stub = AdminStub(channel)
    changes = wanted(args)
    found = levels_of(stub, args)
    if args.reset and not args.words:
        changes = [(name, "") for name in sorted(found.levels)]
    for logger, level in changes:
        stub.SetLogLevel(SetLogLevelRequest(logger=logger, level=level), timeout=args.timeout)
    if changes:
        found = levels_of(stub, args)
    show(found, args.output)


def levels_of(stub: AdminStub, args: argparse.Namespace) -> GetLogLevelsResponse:
    """The levels, with those wanted by all RMs."""
    found = GetLogLevelsResponse()
    for page in pages(stub.GetLogLevels, GetLogLevelsRequest(), args.timeout):
        found.MergeFrom(page)
    return found


def show(found: GetLogLevelsResponse, output: str) -> None:
    """The levels that were given, and below them those that RMs want, if any."""
    given = dict(sorted(found.levels.items()))
    wanted = [{"rmId": one.rm_id, "levels": dict(sorted(one.levels.items()))} for one in found.wanted]
    if output in DATA_FORMS:
        print_data({"levels": given, "wanted": wanted}, output)
        return
    rows = [(printable(name) or OTHERS, level, NOTHING) for name, level in given.items()]
    rows += [
        (printable(name) or OTHERS, level, f"RM {printable(one.rm_id)}")
        for one in found.wanted
        for name, level in sorted(one.levels.items())
    ]
    cells = len(HEADERS) if wanted else len(HEADERS) - 1
    print_table(HEADERS[:cells], [row[:cells] for row in rows])


def wanted(args: argparse.Namespace) -> list[tuple[str, str]]:
    """The loggers that get another level, and which; empty texts for all others, and for none.

    Raises:
        UsageError: the arguments do not fit together.
    """
    match args.words:
        case []:
            return []
        case [logger] if args.reset:
            return [(logger, "")]
        case [level] if level in LEVELS:
            return [("", level)]
        case [logger, level] if level in LEVELS and not args.reset:
            return [(logger, level)]
    raise UsageError(f"log-level [LOGGER] LEVEL, with one of {', '.join(LEVELS)}")
