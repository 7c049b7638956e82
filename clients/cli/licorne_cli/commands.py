"""The `licorne` command: the table of its commands, and the entry point.

A command is a `Command`, ``module:NAME``, or a module with `add_arguments`, `run` and `EXAMPLES`. It
is imported only when it is chosen, because some imports are slow.
"""

import argparse
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from pkgutil import resolve_name
from typing import NoReturn

from licorne_cli import DISTRIBUTION
from licorne_cli.failures import INTERRUPTED, OK, USAGE
from licorne_cli.output.text import OutputError, say, while_read
from licorne_cli.parsing.parser import Catalogue, Command, Offering, Parser, commands_of
from licorne_cli.plugins import BROUGHT_BY, plugged_in

GRPC_VERBOSITY = "GRPC_VERBOSITY"
CLI = "licorne_cli"
SERVE = "serve"
COMMANDS = {
    "status": (f"{CLI}.nouns.status:STATUS", "show the whole server on one screen"),
    "healthcheck": (f"{CLI}.server.healthcheck", "exit with 0 if the server here is alive"),
    "version": (f"{CLI}.server.process:VERSION", "say which versions run, here and in a server"),
    "queues": (f"{CLI}.nouns.queues", "show queues, stop or start them"),
    "apps": (f"{CLI}.nouns.apps", "show, plan, hold, change and kill applications"),
    "nodes": (f"{CLI}.nouns.nodes", "show, cordon and drain nodes"),
    "topology": (f"{CLI}.nouns.topology", "show free room by rack or zone, and the largest gang for each"),
    "rms": (f"{CLI}.nouns.rms", "show resource managers, or forget one"),
    "budgets": (f"{CLI}.nouns.budgets", "show budgets over resource managers, replace or release them"),
    "members": (f"{CLI}.nouns.members", "show the servers that share the RMs, drain or undrain them"),
    "log-level": (f"{CLI}.server.process:LOG_LEVEL", "show how much the server logs, or change it"),
    "state-dump": (f"{CLI}.server.process:STATE_DUMP", "write everything that the server knows, as JSON"),
    "usage": (f"{CLI}.nouns.usage", "show what queues, users or groups have used, in resource-hours"),
    "users": (f"{CLI}.nouns.users", "show what users or groups have and may have"),
    "top": (f"{CLI}.screen.top", "watch the queues of all partitions"),
    "explain": (f"{CLI}.nouns.explain", "say why asks wait, all of them or one"),
    "calendar": (f"{CLI}.nouns.calendar", "show when blocked asks and gangs are expected to start"),
    "events": (f"{CLI}.nouns.events", "show what happened, and what happens"),
    "config": (
        f"{CLI}.config.command:CONFIG",
        "read, compare, plan, apply and roll back the configurations of resource managers",
    ),
    "reload": (f"{CLI}.server.process:RELOAD", "have the server read its --config file again"),
    "context": (f"{CLI}.connection.contexts", "name servers, and say which one is meant"),
    "completion": (f"{CLI}.parsing.completion", "print what a shell needs to complete commands"),
    "help": (f"{CLI}.commands:HELP", "print the help of a command"),
}
"""The commands of this distribution: the dotted name and the help line of each."""

GROUPS = {
    "look": (
        *("status", "top", "queues", "apps", "nodes", "rms", "members", "budgets", "users", "usage"),
        *("events", "calendar", "topology"),
    ),
    "ask why": ("explain", "why"),
    "configure": ("config", "validate-config", "reload"),
    "operate": ("serve", "settings", "version", "healthcheck", "log-level", "state-dump"),
    "try": ("demo", "dev", "fake-rm", "simulate", "replay", "bench"),
    "this command line": ("context", "completion", "help"),
}
"""The commands by group, in the order of the help."""

COMPLETING = "_ARGCOMPLETE"
"""Variable that is set when a shell requests completions."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; returns its exit code."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    code: int = OK
    try:
        if COMPLETING in os.environ and arguments is None:
            _complete()
        given = with_command_first(given)
        if given and given[0] in BROUGHT_BY and given[0] not in installed_commands():
            say(f"licorne: {given[0]} comes with {BROUGHT_BY[given[0]]}, which is not installed here")
            return USAGE
        # The import of a command may be slow, and may be interrupted. The second word is used for
        # suggestions: `get queues`, `drain node n1`.
        args = parser_for(*given[:2]).parse_line(given)
        run = command_of(args.command).run
        # A server continues without stdout, because its logging handles that.
        with nullcontext() if args.command == SERVE else while_read(needed=False):
            code = run(args)
    except KeyboardInterrupt:
        return INTERRUPTED
    except OutputError as error:
        say(f"licorne: {error}")
        return USAGE
    return code


def with_command_first(words: Sequence[str]) -> list[str]:
    """The words, with the command moved in front of its options, as in ``--target core queues``."""
    for at, word in enumerate(words):
        if not (words[0].startswith("-") and word in installed_commands()):
            continue
        [(_, (_, parser))] = [item for item in commands_of(parser_for(word)) if item[0] == word]
        if parser.length_of_options(words) == at:
            return [word, *words[:at], *words[at + 1 :]]
    return list(words)


def _complete() -> None:
    """Answer a shell that requests completions, and exit."""
    from licorne_cli.parsing.completion import complete

    def place(words: Sequence[str]) -> tuple[Parser, list[str]]:
        words = with_command_first(words)
        _, parser, left = parser_for(*words[:1]).descend(words, argparse.Namespace())
        return parser, left

    def run(words: list[str], where: argparse.Namespace) -> None:
        args = parser_for(words[0]).parse_line(words)
        args.__dict__.update({name: value for name, value in vars(where).items() if hasattr(args, name)})
        command_of(words[0]).run(args)

    complete(place, run)


def installed_commands() -> Mapping[str, tuple[str, str]]:
    """All commands that are installed here. Those of this distribution cannot be replaced."""
    return {**plugged_in(), **COMMANDS}


def command_of(name: str) -> Command:
    """The command with this name, imported now."""
    with _silent_grpc():
        place = installed_commands()[name][0]
        found = resolve_name(place if ":" in place else f"{place}:")
    if isinstance(found, Command):
        return found
    return Command((found.add_arguments,), found.run, found.EXAMPLES)


@contextmanager
def _silent_grpc() -> Iterator[None]:
    """Silence gRPC's C core unless the user has set its verbosity: commands report failures themselves.

    gRPC reads the variable when it is imported. Processes that are started later must not
    inherit it, because a server logs the messages of gRPC.
    """
    if GRPC_VERBOSITY in os.environ:
        yield
        return
    os.environ[GRPC_VERBOSITY] = "NONE"
    try:
        yield
    finally:
        del os.environ[GRPC_VERBOSITY]


def parser_for(*chosen: str) -> Parser:
    """A parser with the names of all commands, and the arguments of the chosen ones."""
    parser = Catalogue(
        prog="licorne",
        description="A resource scheduler over gRPC.",
        epilog="licorne COMMAND --help has the options of a command, and examples.",
    )
    parser.groups = GROUPS
    parser.add_argument("--version", action=_Version, nargs=0, help="say which version this is")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND", parser_class=Parser)
    for name, (_, text) in installed_commands().items():
        command = commands.add_parser(name, help=text)
        if name in chosen or name.removesuffix("s") in chosen:
            command.description = text
            command_of(name).add_to(command)
    return parser


def run_help(args: argparse.Namespace) -> int:
    """Print the help of the command, or the list of all commands."""
    parser_for(*args.words[:1]).parse_line([*args.words, "--help"])
    return OK


HELP = Command(
    (
        lambda parser: parser.add_argument(
            "words",
            nargs="*",
            type=Offering(str, tuple(installed_commands())),
            metavar="COMMAND",
            help="the command, and its verb (default: all commands)",
        ),
    ),
    run_help,
    (
        ("licorne help", "all commands"),
        ("licorne help queues", "one of them"),
        ("licorne help queues stop", "one of its verbs"),
    ),
)


class _Version(argparse.Action):
    """`--version`: print one line and exit."""

    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> NoReturn:
        from importlib.metadata import version

        print(f"licorne {version(DISTRIBUTION)}")
        parser.exit(OK)
