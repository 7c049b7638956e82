"""The completion scripts of the shells, written from the commands and options of the parser."""

import argparse
import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from licorne_cli.parsing.parser import Offering

KINDS = ("QUEUE", "APP", "NODE", "RM", "BUDGET", "USER", "GROUP", "PARTITION", "CONTEXT", "FILE")
"""Metavars that are kinds of values. Names come from the server, files from the file system."""
FLAG = ""
"""Kind of an option without a value."""
ANYTHING = "-"
"""Kind of a value that cannot be completed."""


@dataclass(frozen=True, slots=True)
class Value:
    """The value of an argument: one of `choices`, or a name of a `kind`; `FLAG` for no value."""

    kind: str
    choices: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Option:
    """The spellings of an option, its value, and its purpose."""

    flags: tuple[str, ...]
    value: Value
    text: str


@dataclass(frozen=True, slots=True)
class CommandSpec:
    """A command by its words (none for `licorne` itself), and everything that may follow.

    `commands` are the subcommands with their purposes. `arguments` are the positional values, the
    last one any number of times if `repeats`.
    """

    words: tuple[str, ...]
    commands: tuple[tuple[str, str], ...]
    options: tuple[Option, ...]
    arguments: tuple[Value, ...]
    repeats: bool


def specs_of(parser: argparse.ArgumentParser, words: tuple[str, ...] = ()) -> Sequence[CommandSpec]:
    """The commands of a parser, each followed by its subcommands."""
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
    """The purpose of each subcommand."""
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
    return Value(action.metavar if action.metavar in KINDS else ANYTHING)


_BASH = """\
# Completion of licorne for bash. Written by `licorne completion bash`.

# What follows a command, by its words: commands, options, and the kinds of its arguments.
_licorne_command() {{
    subs= opts= args=
    case "$1" in
{commands}
    esac
}}

# The kind of value that an option takes; empty for none.
_licorne_value() {{
    value=
    case "$1" in
{values}
    esac
}}

# Takes the offers on stdin, a line each, that begin with what was typed; $1 quotes them.
# What bash took for a word of its own, up to the last ":" or "=", stays as it is.
_licorne_take() {{
    local line offer
    while IFS= read -r line; do
        [[ "$line" == "${{cur//\\\\/}}"* ]] || continue
        offer="$before$line"
        offer="${{offer#"$lead"}}"
        [[ "$1" == quoted ]] && offer="$(printf %q "$offer")"
        COMPREPLY+=("$offer")
    done
}}

# Offers the values of a kind: choices behind a `=`, files, or names that the server knows.
# Names come from others: the shell must not expand them, and they are quoted.
_licorne_offer() {{
    local IFS=$' \\t\\n'
    case "$1" in
    =*) _licorne_take < <(compgen -W "${{1#=}}") ;;
    FILE)
        compopt -o filenames 2>/dev/null
        _licorne_take < <(compgen -f -- "$cur")
        ;;
    [A-Z]*)
        _licorne_take quoted < <(
            "${{words[0]}}" completion names "$1" "${{words[@]:1}}" 2>/dev/null
        )
        ;;
    esac
}}

# The words of the line in `words`: bash makes several of one that has a ":" or "=" in it.
_licorne_words() {{
    local word glued= i
    words=()
    for ((i = 0; i <= COMP_CWORD; i++)); do
        word="${{COMP_WORDS[i]}}"
        if [[ "$COMP_WORDBREAKS" == *[:=]* && $i -gt 1 && ( -n "$glued" || "$word" == [:=]* ) ]] &&
            ! [[ -z "$word" && "$COMP_LINE" == *" " ]]; then
            words[${{#words[@]}}-1]+="$word"
        else
            words+=("$word")
        fi
        glued=
        [[ "$word" == [:=] ]] && glued=yes
    done
}}

_licorne() {{
    local words word kind i cur before= lead=
    local typed= count=0 subs opts args value=
    COMPREPLY=()
    _licorne_words
    local last=$((${{#words[@]}} - 1))
    cur="${{words[last]}}"
    if [[ "$COMP_WORDBREAKS" == *:* && "$cur" == *[:=]* ]]; then
        lead="${{cur%"${{cur##*[:=]}}"}}"
    fi
    _licorne_command ""
    for ((i = 1; i < last; i++)); do
        word="${{words[i]}}"
        if [[ -n "$value" ]]; then
            value=
        elif [[ "$word" == --*=* ]]; then
            :
        elif [[ "$word" == -* ]]; then
            _licorne_value "$typed $word"
        elif [[ "$count" == 0 && " $subs " == *" $word "* ]]; then
            typed="${{typed:+$typed }}$word"
            _licorne_command "$typed"
        else
            count=$((count + 1))
        fi
    done
    if [[ -z "$value" && "$cur" == --*=* ]]; then
        before="${{cur%%=*}}="
        cur="${{cur#*=}}"
        _licorne_value "$typed ${{before%=}}"
    fi
    if [[ -n "$value" ]]; then
        _licorne_offer "$value"
        return
    fi
    if [[ "$cur" == -* ]]; then
        _licorne_offer "=$opts"
        return
    fi
    if [[ -n "$subs" && "$count" == 0 ]]; then
        _licorne_offer "=$subs"
    fi
    i=0
    while IFS= read -r kind; do
        if [[ "$i" == "$count" || "$kind" == *... ]]; then
            _licorne_offer "${{kind%...}}"
            return
        fi
        i=$((i + 1))
    done <<< "$args"
}}

complete -F _licorne licorne
"""

_ZSH = """\
#compdef licorne
# Completion of licorne for zsh, which reads that for bash.

autoload -U +X bashcompinit && bashcompinit
{bash}
"""

_FISH = """\
# Completion of licorne for fish. Written by `licorne completion fish`.

function __licorne_names
    licorne completion names $argv (commandline -opc)[2..] 2>/dev/null
end

complete -c licorne -f
"""


def bash(specs: Sequence[CommandSpec]) -> str:
    """The script for bash."""
    commands = "\n".join(line for spec in specs for line in _bash_command(spec))
    values = "\n".join(line for spec in specs for line in _bash_values(spec))
    return _BASH.format(commands=commands, values=values)


def zsh(specs: Sequence[CommandSpec]) -> str:
    """The script for zsh."""
    return _ZSH.format(bash=bash(specs))


def fish(specs: Sequence[CommandSpec]) -> str:
    """The script for fish."""
    return _FISH + "".join(f"{line}\n" for spec in specs for line in _fish(spec))


def _kind(value: Value) -> str:
    """A value in the notation of the bash script."""
    if not value.choices:
        return value.kind
    return f"={' '.join(value.choices)}"


def _bash_command(spec: CommandSpec) -> Iterator[str]:
    flags = " ".join(flag for option in spec.options for flag in option.flags)
    yield f"    {shlex.quote(' '.join(spec.words))})"
    if spec.commands:
        yield f"        subs={shlex.quote(' '.join(name for name, _ in spec.commands))}"
    yield f"        opts={shlex.quote(flags)}"
    if spec.arguments:
        kinds = [_kind(value) for value in spec.arguments]
        kinds[-1] += "..." if spec.repeats else ""
        yield "        args=$" + "'" + "\\n".join(kinds).replace("'", "") + "'"
    yield "        ;;"


def _bash_values(spec: CommandSpec) -> Iterator[str]:
    for option in spec.options:
        if option.value.kind != FLAG or option.value.choices:
            patterns = "|".join(shlex.quote(" ".join([*spec.words, flag])) for flag in option.flags)
            if not spec.words:
                patterns = "|".join(shlex.quote(f" {flag}") for flag in option.flags)
            yield f"    {patterns}) value={shlex.quote(_kind(option.value))} ;;"


def _fish(spec: CommandSpec) -> Iterator[str]:
    seen = "; and ".join(f"__fish_seen_subcommand_from {word}" for word in spec.words)
    begin = f"complete -c licorne -n {shlex.quote(seen or '__fish_use_subcommand')}"
    if spec.commands and spec.words:
        others = " ".join(name for name, _ in spec.commands)
        condition = f"{seen}; and not __fish_seen_subcommand_from {others}"
        begin = f"complete -c licorne -n {shlex.quote(condition)}"
    for name, text in spec.commands:
        yield f"{begin} -a {name} -d {shlex.quote(text)}"
    for value in spec.arguments:
        yield f"{begin} {_fish_value(value)}"
    for option in spec.options:
        flags = " ".join(
            f"-l {flag[2:]}" if flag.startswith("--") else f"-s {flag[1:]}" for flag in option.flags
        )
        yield f"{begin} {flags}{_fish_needs(option.value)} -d {shlex.quote(option.text)}"


def _fish_needs(value: Value) -> str:
    """The value of an option for fish; files are offered only for files."""
    if value == Value(FLAG):
        return ""
    return " -r -F" if value.kind == "FILE" else f" -x {_fish_value(value)}".rstrip()


def _fish_value(value: Value) -> str:
    if value.choices:
        return f"-a {shlex.quote(' '.join(value.choices))}"
    if value.kind == "FILE":
        return "-F"
    return "" if value.kind == ANYTHING else f"-a '(__licorne_names {value.kind})'"
