"""The words that a shell can complete: commands, options, and their values."""

import argparse
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from licorne_cli.parsing.arguments import Offering

KINDS = ("QUEUE", "APP", "NODE", "RM", "USER", "GROUP", "PARTITION", "CONTEXT", "FILE")
"""Metavars that say what a value is. Names of the kinds are asked for, files are looked up."""
FLAG = ""
"""An option without a value."""
ANYTHING = "-"
"""A value of which nothing is known."""


@dataclass(frozen=True, slots=True)
class Value:
    """The value of an argument: one of `choices`, or of a kind; `FLAG` if there is no value.

    Of a kind that has choices too it may be either.
    """

    kind: str
    choices: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Option:
    """The spellings of an option, its value, and what it is for."""

    flags: tuple[str, ...]
    value: Value
    text: str


@dataclass(frozen=True, slots=True)
class CommandSpec:
    """A command by its words (none for `licorne` itself) and all that may follow.

    `commands` are those below with what they do; `arguments` the values that have no option, the
    last one any number of times if `repeats`.
    """

    words: tuple[str, ...]
    commands: tuple[tuple[str, str], ...]
    options: tuple[Option, ...]
    arguments: tuple[Value, ...]
    repeats: bool


def specs_of(parser: argparse.ArgumentParser, words: tuple[str, ...] = ()) -> Sequence[CommandSpec]:
    """The commands of a parser, those below behind their parent."""
    return list(_specs(parser, words))


def _specs(parser: argparse.ArgumentParser, words: tuple[str, ...]) -> Iterator[CommandSpec]:
    shown = [action for action in parser._actions if action.help != argparse.SUPPRESS]
    below = [action for action in shown if isinstance(action, argparse._SubParsersAction)]
    commands = {
        name: item for action in below for name, item in zip(action.choices, _texts(action), strict=True)
    }
    positional = [item for item in shown if not item.option_strings and item not in below]
    yield CommandSpec(
        words=words,
        commands=tuple(commands.items()),
        options=tuple(
            Option(tuple(action.option_strings), _value(action), _text(action))
            for action in shown
            if action.option_strings
        ),
        arguments=tuple(map(_value, positional)),
        repeats=any(action.nargs in ("+", "*") for action in positional),
    )
    for action in below:
        for name, child in action.choices.items():
            yield from _specs(child, (*words, name))


def _texts(action: argparse.Action) -> list[str]:
    """The purpose of each of the commands below."""
    return [item.help or "" for item in getattr(action, "_choices_actions", ())]


def _text(action: argparse.Action) -> str:
    """The purpose of an option in a few words."""
    return (action.help or "").replace("(%(default)s)", "").split(";")[0].strip()


def _value(action: argparse.Action) -> Value:
    if action.nargs == 0:
        return Value(FLAG)
    if action.choices is not None:
        return Value(ANYTHING, tuple(map(str, action.choices)))
    if isinstance(action.type, Offering):
        return Value(ANYTHING, action.type.words)
    # Before what a command acts on its acts may stand: ``[drain|undrain] NODE``.
    acts, _, metavar = (action.metavar if isinstance(action.metavar, str) else "").rpartition(" ")
    choices = tuple(acts.strip("[]").split("|")) if acts and metavar in KINDS else ()
    return Value(metavar if metavar in KINDS else ANYTHING, choices)
