"""The parser of the command line: argument types, and errors in one line with a suggestion."""

import argparse
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from math import isfinite
from typing import Any, NamedTuple, NoReturn

from licorne_cli.failures import USAGE

ForCommands = argparse._SubParsersAction


class ForVerbs(ForCommands):  # type: ignore[type-arg]
    """Subcommands of a parser that also has arguments: ``nodes n1`` and ``nodes drain n1``.

    argparse does not support both, so `Parser` chooses the subcommand before argparse gets the words.
    """


LISTS = ("wide", "yaml", "name")
"""Forms of `-o` that only lists have."""

LONGEST = 64
"""Maximum characters of a word that are compared."""
LIKENESS = 0.7
"""Similarity of two words, from 0 to 1, from which one is suggested for the other."""


class Parser(argparse.ArgumentParser):
    """A parser that exits with 1 for wrong usage (DESIGN § 5), or with `usage_error`; argparse uses 2."""

    _line = ""
    """The short usage, which is made before words are temporarily removed from the parser."""

    def error(self, message: str) -> NoReturn:
        """Print the usage in one line, and the error; then exit."""
        self._print_message(self._line or self._short_usage(), sys.stderr)
        self.exit(self.get_default("usage_error") or USAGE, f"{self.prog}: {message}\n")

    def parse_line(self, given: Sequence[str]) -> argparse.Namespace:
        """Parse the words. Options may be between words, which argparse by itself does not accept.

        Exits after an error, or after the output of `--help` and the like.
        """
        known = argparse.Namespace()
        above, parser, words = self.descend(given, known)
        if parser._needs_command():
            parser._expect_command(words)
            return parser.parse_args(words, known)
        if any(action.nargs == argparse.REMAINDER for action in parser._get_positional_actions()):
            return parser.parse_args(words, known)
        parser._line = parser._short_usage()
        args, unknown = parser.parse_known_intermixed_args(words, known)
        if unknown:
            parser.error(parser._problem_of(unknown, words, above))
        return args

    def descend(
        self, given: Sequence[str], known: argparse.Namespace
    ) -> tuple[list["Parser"], "Parser", list[str]]:
        """The parsers above the command's, the parser of the command in these words, and the remaining words.

        `known` gets the command and its verb.
        """
        parser, words, above = self, list(given), []
        while (at := parser._place_of_command(words)) is not None:
            action, child = dict(commands_of(parser))[words[at]]
            setattr(known, action.dest, words.pop(at))
            above.append(parser)
            parser = child
        return above, parser, words

    def length_of_options(self, words: Sequence[str]) -> int:
        """The number of leading words that are options or values of options. Options of verbs count too."""
        at = 0
        options = dict(self._option_string_actions)
        for _, (_, child) in commands_of(self):
            options = {**child._option_string_actions, **options}
        while at < len(words) and (option := options.get(words[at].partition("=")[0])):
            at += 1 if option.nargs == 0 or "=" in words[at] else 2
        return at

    def _get_positional_actions(self) -> list[argparse.Action]:
        """The words that argparse itself has to find."""
        found = super()._get_positional_actions()
        return [action for action in found if not isinstance(action, ForVerbs)]

    def _needs_command(self) -> bool:
        """True for a parser whose only arguments are subcommands."""
        return any(isinstance(action, ForCommands) for action in self._get_positional_actions())

    def _place_of_command(self, words: Sequence[str]) -> int | None:
        """The index of the subcommand in the words; None if there is none.

        Options may precede a verb.
        """
        at = 0 if self._needs_command() else self.length_of_options(words)
        return at if at < len(words) and words[at] in dict(commands_of(self)) else None

    def _expect_command(self, words: Sequence[str]) -> None:
        """Print help if no subcommand was named; argparse handles other words."""
        if not words:
            self.print_help(sys.stderr)
            self.exit(USAGE)
        if words[0].startswith("-") and words[0].partition("=")[0] not in self._option_string_actions:
            self.error(f"unknown option {words[0].partition('=')[0]}{self._meant(words)}")
        commands = dict(commands_of(self))
        noun = next((name for name in commands if name in (*words[1:2], *(f"{w}s" for w in words[1:2]))), "")
        if words[0] not in commands and noun:
            verb = words[:1] if words[0] in dict(commands_of(commands[noun][1])) else ()
            meant = " ".join([self.prog, noun, *verb, *words[2:]])
            self.error(f"{words[0]!r} is no command, did you mean {meant}?")

    def _problem_of(self, unknown: Sequence[str], words: Sequence[str], above: Sequence["Parser"]) -> str:
        """The message for unknown words and options."""
        verbs = dict(commands_of(self))
        if verbs and not unknown[0].startswith("-"):
            word = next(word for word in words if not word.startswith("-"))
            return f"{word} is no verb{did_you_mean(word, verbs) or ';'} there are {', '.join(verbs)}"
        option = unknown[0].partition("=")[0]
        near = [*above[-1:], *(child for _, child in verbs.values())]
        if others := [one.prog for one in near if option in one._option_string_actions]:
            return f"{option} is an option of {', '.join(others)}"
        return f"unrecognized arguments: {' '.join(unknown)}{self._meant(unknown)}"

    def _meant(self, unknown: Iterable[str]) -> str:
        """A suggestion for the first unknown option that resembles a supported one."""
        options = (word.partition("=")[0] for word in unknown if word.startswith("-"))
        texts = (did_you_mean(option, self._flags()) for option in options)
        return next(filter(None, texts), "")

    def _flags(self) -> list[str]:
        return [flag for flag in self._option_string_actions if flag.startswith("--")]

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        """Refuse a value that is not one of the choices, with a suggestion."""
        if action.choices is None or value in action.choices:
            return
        known = [str(choice) for choice in action.choices]
        if action.dest == "output" and value in LISTS:
            reason = f"{value} is a form of lists, and this is none"
        else:
            reason = f"invalid choice: {value!r}{did_you_mean(str(value), known)}"
        raise argparse.ArgumentError(action, f"{reason} (choose from {', '.join(known)})")

    def _short_usage(self) -> str:
        """The usage without options, which would fill a screen; `--help` lists them."""
        formatter = self._get_formatter()
        formatter.add_usage(None, self._get_positional_actions(), [])
        return formatter.format_help().replace(self.prog, f"{self.prog} [OPTION...]", 1)


def commands_of(
    parser: argparse.ArgumentParser,
) -> Iterator[tuple[str, tuple[argparse.Action, Any]]]:
    """The subcommands, each with the action that chooses it and its parser."""
    for action in parser._actions:
        if isinstance(action, ForCommands):
            for name, child in action.choices.items():
                yield name, (action, child)


def verbs_of(parser: argparse.ArgumentParser) -> dict[str, str]:
    """The verbs of a noun, each with its help line."""
    return {
        verb.dest: verb.help or ""
        for action in parser._actions
        if isinstance(action, ForVerbs)
        for verb in action._get_subactions()
    }


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """``, did you mean queues?`` for a word that resembles a supported one; else empty."""
    meant = similar(word, known)
    return f", did you mean {meant}?" if meant else ""


def similar(word: str, known: Iterable[str]) -> str:
    """The supported word that begins with this word, or resembles it; empty if there is none."""
    spelt = {name.lstrip("-"): name for name in known}
    word = word.lstrip("-").lower()[:LONGEST]
    longer = [name for name in spelt if word and name.startswith(word)]
    meant = longer or get_close_matches(word, list(spelt), n=1, cutoff=LIKENESS)
    # Never suggest the opposite, such as `hold` for `unhold`.
    return spelt[meant[0]] if meant and word != f"un{meant[0]}" else ""


class Catalogue(Parser):
    """The parser of all commands, whose help lists them in groups."""

    groups: Mapping[str, Sequence[str]] = {}

    def format_help(self) -> str:
        """The usage, the commands by group, and the options."""
        formatter = self._get_formatter()
        formatter.add_usage(self.usage, self._actions, self._mutually_exclusive_groups)
        formatter.add_text(self.description)
        [commands] = (action for action in self._actions if isinstance(action, ForCommands))
        listed = {action.dest: action for action in commands._get_subactions()}
        grouped = [name for names in self.groups.values() for name in names]
        others = [name for name in listed if name not in grouped]
        for title, names in {**self.groups, "others": others}.items():
            formatter.start_section(title)
            formatter.add_arguments([listed[name] for name in names if name in listed])
            formatter.end_section()
        formatter.start_section("options")
        formatter.add_arguments([action for action in self._actions if action is not commands])
        formatter.end_section()
        formatter.add_text(self.epilog)
        return formatter.format_help()


MAX_DIGITS = 19
"""Number of digits that no size or revision exceeds."""


@dataclass(frozen=True, slots=True)
class Offering:
    """An argument type with words for completion; other values are accepted too."""

    read: Callable[[str], Any]
    words: tuple[str, ...]

    def __call__(self, text: str) -> Any:
        """Parse a text."""
        return self.read(text)


def positive(text: str) -> int:
    """A whole number of at least 1."""
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"{text} is not at least 1")
    return number


def revision(text: str) -> int:
    """The number of a revision."""
    if not (text.isascii() and text.isdecimal() and len(text) < MAX_DIGITS and int(text)):
        raise argparse.ArgumentTypeError(f"{text} is no revision: a number from 1 on was expected")
    return int(text)


def seconds(at_least: float) -> Callable[[str], float]:
    """Make the parser of a finite number of seconds, at least `at_least`."""

    def read(text: str) -> float:
        value = float(text)
        if not (isfinite(value) and value >= at_least):
            raise argparse.ArgumentTypeError(f"{text} is not a time of at least {at_least:g} s")
        return value

    # If the text is not a number, argparse's error message shows this name as the type.
    read.__name__ = "seconds"
    return read


DURATION_UNITS = {
    "d": 86_400,
    "h": 3600,
    "m": 60,
    "s": 1,
    "ms": 1e-3,
    "us": 1e-6,
    "µs": 1e-6,
    "μs": 1e-6,
    "ns": 1e-9,
}
DURATION_PART = r"([0-9]{1,20}[.]?[0-9]{0,20}|[.][0-9]{1,20})(d|h|ms|m|s|us|µs|μs|ns)"
MAX_PARTS = 20
LONGEST_SECONDS = 2**63 / 1e9
"""Maximum seconds, whose nanoseconds fit into 64 bits."""


def duration(text: str) -> float:
    """A positive duration, in seconds: ``90s``, ``5m``, ``1h30m``, ``7d``."""
    if not re.fullmatch(rf"\+?({DURATION_PART}){{1,{MAX_PARTS}}}", text):
        length = 0.0
    else:
        parts = re.findall(DURATION_PART, text)
        length = sum(float(number) * DURATION_UNITS[unit] for number, unit in parts)
    if not 0 < length <= LONGEST_SECONDS:
        raise argparse.ArgumentTypeError(f"{text} is no length of time such as 90s, 5m, 1h30m or 7d")
    return length


SIZE_UNITS = {"": 1, "Ki": 2**10, "Mi": 2**20, "Gi": 2**30, "Ti": 2**40}


def size(text: str) -> int:
    """A number of bytes: ``512Mi``, ``2Gi``, or a plain whole number."""
    digits = text.rstrip("KMGTi")
    unit = SIZE_UNITS.get(text[len(digits) :])
    if unit is None or not (digits.isascii() and digits.isdecimal() and len(digits) < MAX_DIGITS):
        known = ", ".join(filter(None, SIZE_UNITS))
        raise argparse.ArgumentTypeError(f"{text} is no size: a whole number, with {known} or none")
    return int(digits) * unit


def percent(text: str) -> int:
    """A whole number from 0 to 100."""
    number = int(text)
    if not 0 <= number <= 100:
        raise argparse.ArgumentTypeError(f"{text} is not between 0 and 100")
    return number


Arguments = Callable[[argparse.ArgumentParser], object]
"""Adds arguments to a parser."""


def argument(*names: str, **how: Any) -> Arguments:
    """Make the function that adds a word or an option; parameters as in `ArgumentParser.add_argument`."""
    return lambda parser: parser.add_argument(*names, **how)


def add_yes(parser: argparse.ArgumentParser, *, asks: bool = True) -> None:
    """Add ``--yes`` to a command that asks before it acts, or that scripts call in the same way."""
    text = "do it without being asked" if asks else "accepted as elsewhere: this asks nothing"
    parser.add_argument("-y", "--yes", action="store_true", help=text)


class Command(NamedTuple):
    """A command, or a verb of a noun."""

    arguments: Sequence[Arguments]
    run: Callable[[argparse.Namespace], int]
    """Returns the exit code."""
    examples: Sequence[tuple[str, str]]
    """Command lines, each with its purpose."""
    notes: str = ""
    """Text before the examples at the end of the help."""
    text: str = ""
    """Help line of a verb in the help of its noun."""

    def add_to(self, parser: argparse.ArgumentParser) -> None:
        """Add the arguments to a parser, and the examples to its help."""
        parser.epilog = self.notes
        for add in self.arguments:
            add(parser)
        _add_examples(parser, self.examples)
        for _, (_, child) in commands_of(parser):
            if not child.epilog:
                _add_examples(child, [one for one in self.examples if one[0].startswith(f"{child.prog} ")])


def _add_examples(parser: argparse.ArgumentParser, examples: Sequence[tuple[str, str]]) -> None:
    """Add examples to the end of the help."""
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    if examples:
        lines = [f"  {command}\n      {purpose}" for command, purpose in examples]
        shown = "\n".join(["examples:", *lines])
        parser.epilog = f"{parser.epilog.rstrip()}\n\n{shown}" if parser.epilog else shown
