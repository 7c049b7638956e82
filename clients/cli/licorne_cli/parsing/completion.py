"""`licorne completion`, and the completions of commands for a shell.

argcomplete has the scripts for shells. They run `licorne` with the line typed so far, and `complete` answers.
Names of queues, nodes and other items are requested from the server, which has to answer within a second.
They are untrusted: control characters in them are escaped, and argcomplete quotes them for the shell.
"""

import argparse
import os
import re
import shlex
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import redirect_stderr, redirect_stdout, suppress
from functools import partial
from io import StringIO
from typing import Any

from argcomplete import autocomplete
from argcomplete.completers import FilesCompleter
from argcomplete.lexers import split_line
from argcomplete.shell_integration import shellcode

from licorne.v1.state_pb2_grpc import StateStub
from licorne_cli.connection.channel import add_connection_arguments, partitions_of, with_channel
from licorne_cli.failures import OK
from licorne_cli.output.text import while_read
from licorne_cli.parsing.parser import Offering, Parser, verbs_of

SHELLS = ("bash", "zsh", "fish")
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
"""By metavar of an argument: the command that lists its names."""
PARTITION, FILE = "PARTITION", "FILE"
PATIENCE = 1.0
"""Timeout in seconds, if `--timeout` was not typed."""
SPECIAL = re.compile(r"([^\w@%+=:,./-])")
"""Special characters of the shell, which must be escaped in a word."""

Place = Callable[[Sequence[str]], tuple[Parser, list[str]]]
"""Finds the parser for a command line, and the words that it has to parse."""
Run = Callable[[list[str], argparse.Namespace], object]
"""Runs a command, with the given values of some options."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `licorne completion`."""
    parser.add_argument("shell", choices=SHELLS, metavar="SHELL", help=", ".join(SHELLS))


def run(args: argparse.Namespace) -> int:
    """Print the script for a shell."""
    with while_read():
        print(shellcode(["licorne"], shell=args.shell, complete_arguments=["-o", "nospace"]), end="")
    return OK


def complete(place: Place, run: Run) -> None:
    """Answer the shell's request for completions, and exit.

    argcomplete gets only the words after the command, because it does not support options before a verb.
    """
    line, point = os.environ["COMP_LINE"], int(os.environ["COMP_POINT"])
    quote, prefix, _, [_, *typed], _ = split_line(line, point)
    parser, words = place(typed)
    current = f"{quote}{prefix}" if quote else SPECIAL.sub(r"\\\1", prefix)
    line = f"{shlex.join(['licorne', *words])} {current}"
    os.environ.update(COMP_LINE=line, COMP_POINT=str(len(line)))
    offered: Any = partial(values, typed=typed, run=run)
    autocomplete(parser, always_complete_options=False, default_completer=offered)


def values(
    prefix: str,
    action: argparse.Action,
    parser: argparse.ArgumentParser,
    *,
    typed: Sequence[str],
    run: Run,
    **_: object,
) -> Mapping[str, str]:
    """The values of an argument with this prefix, each with its meaning; names of a noun with its verbs."""
    if isinstance(action.type, Offering):
        return dict.fromkeys(action.type.words, "")
    if action.metavar == FILE:
        return dict.fromkeys(FilesCompleter()(prefix), "")
    found = dict.fromkeys(names_of(str(action.metavar), typed, run), "")
    return found if action.option_strings else verbs_of(parser) | found


def names_of(kind: str, typed: Sequence[str], run: Run) -> Iterable[str]:
    """The names of a kind, using the connection options that were typed; none after a failure."""
    connection = argparse.ArgumentParser(exit_on_error=False, add_help=False)
    add_connection_arguments(connection, forms=())
    printed = StringIO()
    with redirect_stdout(printed), redirect_stderr(StringIO()), suppress(argparse.ArgumentError, SystemExit):
        # The last word may be an option whose value is still to be typed.
        where, _ = connection.parse_known_args([*typed, ""])
        where.timeout = where.timeout if "--timeout" in typed else PATIENCE
        if kind == PARTITION:
            where.partition = ""
            with_channel(where, lambda channel: print(*partitions_of(StateStub(channel), where), sep="\n"))
            return printed.getvalue().splitlines()
        if kind in LISTED_BY:
            run([*LISTED_BY[kind], "-o", "name"], where)
    return [line.partition("/")[2] for line in printed.getvalue().splitlines()]
