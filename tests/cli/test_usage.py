"""Wrong usage, which is reported without a call to a server."""

from collections.abc import Sequence

import pytest

from licorne_cli.commands import installed_commands, main

NO_REVISION = "{} is no revision: a number from 1 on was expected"
NO_SELECTOR = "{}: KEY=VALUE, KEY!=VALUE, KEY or !KEY was expected"
NO_TARGET = "{!r} is no target: HOST, :PORT or HOST:PORT was expected"
VALUES = {
    ("top", "--count"): {"0": "{} is not at least 1", "-1": "{} is not at least 1"},
    ("top", "--interval"): {"-1": "{} is not a time of at least 0 s"},
    ("queues", "--timeout"): {
        "0": "{} is not a time of at least 0.01 s",
        "nan": "{} is not a time of at least 0.01 s",
        "soon": "invalid seconds value: {!r}",
    },
    ("fake-rm", "--round"): {
        "0": "{} is not a time of at least 1 s",
        "0.00001": "{} is not a time of at least 1 s",
    },
    ("demo", "--seconds"): {"31": "", "x": ""},
    ("bench", "idle", "--seconds"): {"-5": "{} is not a time of at least 0.1 s"},
    ("bench", "shim", "--batch"): {"0": "{} is not at least 1"},
    ("bench", "predicates", "--refuse"): {
        "101": "{} is not between 0 and 100",
        "few": "invalid percent value: {!r}",
    },
    **{
        ("config", *words): dict.fromkeys(("0", "-1", "x", "9" * 30), NO_REVISION)
        for words in (("plan", "f", "--base"), ("apply", "f", "--base"), ("get", "--revision"))
    },
    ("config", "rollback", "--to"): {"0": NO_REVISION},
    ("events", "--from"): dict.fromkeys(("-1", "x", str(2**64)), "{} is no id of an event"),
    ("events", "--since"): {"yesterday": "{} is no length of time such as 90s, 5m, 1h30m or 7d"},
    ("nodes", "--sort-by"): {
        "colour": "{} is no column; there are node, schedulable, used",
        "node.vcore": "{}: the column node has no resources",
        "usde": "usde is no column, did you mean used?",
    },
    ("nodes", "--selector"): dict.fromkeys(
        ("=a", "zone in (a", "zone notin (a)", "gpus>2", "!"), NO_SELECTOR
    ),
    ("nodes", "--target"): dict.fromkeys(("http://core:7070", "core:7070/x", "a b", ""), NO_TARGET),
    ("nodes", "--output"): {"jsn": "invalid choice: {!r}, did you mean json?"},
    ("apps", "--state"): {"runing": "invalid choice: {!r}, did you mean running?"},
    **{
        (*words, "--output"): dict.fromkeys(("wide", "name"), "{} is a form of lists, and this is none")
        for words in (("explain", "shop"), ("top",), ("version",), ("reload",), ("log-level",))
    },
}
"""Invalid values of options, each with its problem."""
LINES: dict[tuple[str, ...], str] = {
    ("nod",): ", did you mean nodes?",
    ("get", "queues"): "'get' is no command, did you mean licorne queues?",
    ("describe", "app", "a1"): "did you mean licorne apps a1?",
    ("drain", "node", "n1"): "did you mean licorne nodes drain n1?",
    ("help", "quees"): ", did you mean queues?",
    ("nodes", "drain"): "licorne nodes drain: the following arguments are required: NODE",
    ("nodes", "n1", "n2"): "n1 is no verb; there are cordon, uncordon, drain",
    (
        "nodes",
        "drian",
        "n1",
    ): "drian is no verb, did you mean drain? there are cordon, ",
    ("apps", "kill", "a1", "--state", "running"): "--state is an option of licorne apps",
    ("apps", "kill", "a1", "-w"): "-w is an option of licorne apps",
    ("apps", "kill", "a1", "-o", "wide"): "wide is a form of lists, and this is none",
    ("nodes", "--rm", "r", "drain", "n1", "-l", "a=b"): "-l is an option of licorne nodes",
    ("apps", "a1", "--message", "x"): "--message is an option of licorne apps kill",
    ("queues", "-y"): "-y is an option of licorne queues stop",
    ("nodes", "--sortby", "used"): ", did you mean --sort-by?",
    ("context", "lst"): ", did you mean list?",
    ("completion", "bas"): ", did you mean bash?",
    ("--sort-by", "nosuch", "nodes"): "nosuch is no column; there are node, ",
    ("--nosuch", "core", "nodes"): "unknown option --nosuch",
    ("--targt=core", "nodes"): "unknown option --targt",
    ("nodes", "undrain", "n1"): "undrain is no verb; there are cordon, uncordon, drain",
    (): "ask why:",
    **dict.fromkeys((("context",), ("config",)), "positional arguments:"),
}
"""Invalid lines, each with a part of the message; without a command it lists the commands."""


def refused(words: Sequence[str], capsys: pytest.CaptureFixture[str]) -> str:
    """The message for a line; the exit code is 1, and stdout is empty."""
    with pytest.raises(SystemExit) as ended:
        main(words)
    said = capsys.readouterr()
    assert (ended.value.code, said.out) == (1, "")
    return said.err


@pytest.mark.parametrize(
    ("words", "value", "problem"),
    [(words, value, said) for words, values in VALUES.items() for value, said in values.items()],
    ids=str,
)
def test_an_invalid_value_is_named(
    words: tuple[str, ...], value: str, problem: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """The message names the option and the value, with the expected form or a suggestion."""
    said = refused([*words[:-1], f"{words[-1]}={value}"], capsys).splitlines()[-1]
    assert words[-1] in said
    assert problem.format(value) in said


@pytest.mark.parametrize(("words", "said"), LINES.items(), ids=str)
def test_an_unknown_word_gets_a_suggestion(
    words: tuple[str, ...], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """For a word that resembles a valid one, the message suggests that word."""
    assert said in refused(words, capsys)


@pytest.mark.parametrize("command", installed_commands())
def test_an_unknown_option_gives_two_lines(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    """The message has two lines: the usage, and the problem."""
    usage, *_, problem = refused([command, "--nosuch"], capsys).splitlines()
    assert usage.startswith(f"usage: licorne {command} [OPTION...]")
    assert problem.startswith(f"licorne {command}: ")
