"""`licorne completion`: the script with which a shell completes our commands.

The script has commands, options and their choices. For names of queues, nodes and other items it calls
`licorne completion names`. That asks the server, and prints nothing if the server does not answer at once.
These names are untrusted, so the scripts quote them and never let the shell expand them.
"""

import argparse
from collections.abc import Callable, Sequence
from contextlib import redirect_stderr, redirect_stdout
from io import StringIO

from licorne.v1.state_pb2_grpc import StateStub
from licorne_cli.connection.channel import add_connection_arguments, partitions_of, with_channel
from licorne_cli.failures import OK
from licorne_cli.output.text import while_read
from licorne_cli.parsing.completion_scripts import CommandSpec, bash, fish, specs_of, zsh
from licorne_cli.parsing.parser import Offering, did_you_mean

SHELLS: dict[str, Callable[[Sequence[CommandSpec]], str]] = {"bash": bash, "zsh": zsh, "fish": fish}
NAMES = "names"
EXAMPLES = (
    ("licorne completion bash > ~/.local/share/bash-completion/completions/licorne", "for bash"),
    ("licorne completion zsh > ~/.zfunc/_licorne", "for zsh, where ~/.zfunc is in its fpath"),
    ("licorne completion fish > ~/.config/fish/completions/licorne.fish", "for fish"),
)
LISTED_BY = {
    "QUEUE": ("queues",),
    "APP": ("apps", "--state", "all"),
    "NODE": ("nodes",),
    "RM": ("rms",),
    "BUDGET": ("budgets",),
    "MEMBER": ("members",),
    "USER": ("users",),
    "GROUP": ("users", "--groups"),
    "CONTEXT": ("context", "list"),
}
"""The command that lists the names of each kind, by the metavar of arguments."""
PATIENCE = 1.0
"""Timeout in seconds, unless `--timeout` was typed."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The arguments of `licorne completion`."""
    shell = Offering(shell_or_names, tuple(SHELLS))
    parser.add_argument("shell", type=shell, metavar="SHELL", help=", ".join(SHELLS))
    words = parser.add_argument("words", nargs=argparse.REMAINDER, help=argparse.SUPPRESS)
    words.required = False


def shell_or_names(text: str) -> str:
    """The argument type of a shell, or of `names`, which the scripts use."""
    if text not in (*SHELLS, NAMES):
        meant = did_you_mean(text, SHELLS)
        known = ", ".join(SHELLS)
        raise argparse.ArgumentTypeError(f"{text} is no shell{meant or ';'} there are {known}")
    return text


def run(args: argparse.Namespace) -> int:
    """Print the script, or names for the script."""
    from licorne_cli.commands import installed_commands, parser_for

    with while_read():
        if args.shell == NAMES:
            for name in names_of(args.words, parser_for):
                print(name)
        else:
            print(SHELLS[args.shell](specs_of(parser_for(*installed_commands()))), end="")
    return OK


def names_of(words: Sequence[str], parser_for: Callable[[str], argparse.ArgumentParser]) -> list[str]:
    """The names of the kind in the first word; the other words are the line typed so far.

    Only the connection options of that line matter. Failures are silent.
    """
    kind, *typed = words or ["", ""]
    connection = argparse.ArgumentParser(exit_on_error=False, add_help=False)
    add_connection_arguments(connection, forms=())
    with redirect_stdout(StringIO()) as printed, redirect_stderr(StringIO()):
        try:
            where, _ = connection.parse_known_args(typed)
            where.timeout = where.timeout if "--timeout" in typed else PATIENCE
            if kind == "PARTITION":
                where.partition = ""
                with_channel(
                    where, lambda channel: print(*partitions_of(StateStub(channel), where), sep="\n")
                )
                return printed.getvalue().splitlines()
            command = LISTED_BY[kind]
            asked = parser_for(command[0]).parse_args([*command, "-o", "name"])
            if kind != "CONTEXT":
                for name, value in vars(where).items():
                    setattr(asked, name, value)
            from licorne_cli.commands import command_of

            command_of(command[0]).run(asked)
        except (argparse.ArgumentError, SystemExit, KeyError):
            return []
    return [line.partition("/")[2] for line in printed.getvalue().splitlines()]
