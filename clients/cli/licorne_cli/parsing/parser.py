"""The parser of the command line: what is wrong is said in a line, with what may be meant."""

import argparse
import sys
from collections.abc import Iterable, Iterator, Sequence
from difflib import get_close_matches
from typing import Any, NoReturn

from licorne_cli.exit_codes import USAGE

ForCommands = argparse._SubParsersAction
LISTS = ("wide", "yaml", "name")
"""Forms of `-o` that lists have, and other commands need not have."""

LONGEST = 64
"""Characters of a word that are looked at."""
LIKENESS = 0.7
"""Of words, from 0 to 1, from which on one may be meant for the other."""


class Parser(argparse.ArgumentParser):
    """Exits with 1 for wrong usage (DESIGN § 5), or with its `usage_error`; argparse has 2."""

    _line = ""
    """The short usage, made before the words are taken out of the parser for a while."""

    def error(self, message: str) -> NoReturn:
        """Say how it is used, in a line, and what is wrong."""
        self._print_message(self._line or self._short_usage(), sys.stderr)
        self.exit(self.get_default("usage_error") or USAGE, f"{self.prog}: {message}\n")

    def parse_line(self, given: Sequence[str]) -> argparse.Namespace:
        """The arguments; options may stand between words, which argparse does not take by itself.

        Ends the process after a line about what is wrong, or after what was asked for.
        """
        parser, known = self, argparse.Namespace()
        words = list(given)
        while words and words[0] in (commands := dict(commands_of(parser))):
            action, child = commands[words.pop(0)]
            setattr(known, action.dest, given[len(given) - len(words) - 1])
            parser = child
        if dict(commands_of(parser)):
            parser._expect_command(words)
            return parser.parse_args(words, known)
        if any(action.nargs == argparse.REMAINDER for action in parser._get_positional_actions()):
            return parser.parse_args(words, known)
        parser._line = parser._short_usage()
        args, unknown = parser.parse_known_intermixed_args(words, known)
        if unknown:
            parser.error(f"unrecognized arguments: {' '.join(unknown)}{parser._meant(unknown)}")
        return args

    def _expect_command(self, words: Sequence[str]) -> None:
        """Help whoever has not named any of the commands below; argparse judges other words."""
        if not words:
            self.print_help(sys.stderr)
            self.exit(USAGE)
        option = words[0].partition("=")[0]
        if option.startswith("--") and not any(flag.startswith(option) for flag in self._flags()):
            self.error(f"{option} stands before the command: options stand behind it")

    def _meant(self, unknown: Iterable[str]) -> str:
        """For the first unknown option that is much like one that there is, the latter."""
        options = (word.partition("=")[0] for word in unknown if word.startswith("-"))
        texts = (did_you_mean(option, self._flags()) for option in options)
        return next(filter(None, texts), "")

    def _flags(self) -> list[str]:
        return [flag for flag in self._option_string_actions if flag.startswith("--")]

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        """Refuse what is no choice, with that which may be meant."""
        if action.choices is None or value in action.choices:
            return
        known = [str(choice) for choice in action.choices]
        if action.dest == "output" and value in LISTS:
            reason = f"{value} is a form of lists, and this is none"
        else:
            reason = f"invalid choice: {value!r}{did_you_mean(str(value), known)}"
        raise argparse.ArgumentError(action, f"{reason} (choose from {', '.join(known)})")

    def _short_usage(self) -> str:
        """Without the options, which fill a screen; `--help` has them."""
        formatter = self._get_formatter()
        formatter.add_usage(None, self._get_positional_actions(), [])
        return formatter.format_help().replace(self.prog, f"{self.prog} [OPTION...]", 1)


def commands_of(
    parser: argparse.ArgumentParser,
) -> Iterator[tuple[str, tuple[argparse.Action, Any]]]:
    """The commands below, each with what chooses it and its parser."""
    for action in parser._get_positional_actions():
        if isinstance(action, ForCommands):
            for name, child in action.choices.items():
                yield name, (action, child)


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """``, did you mean queues?`` for a word that is much like a known one; else nothing."""
    meant = similar(word, known)
    return f", did you mean {meant}?" if meant else ""


def similar(word: str, known: Iterable[str]) -> str:
    """The known word that begins with this one, or is much like it; empty for none."""
    spelt = {name.lstrip("-"): name for name in known}
    word = word.lstrip("-").lower()[:LONGEST]
    longer = [name for name in spelt if word and name.startswith(word)]
    meant = longer or get_close_matches(word, list(spelt), n=1, cutoff=LIKENESS)
    return spelt[meant[0]] if meant else ""
