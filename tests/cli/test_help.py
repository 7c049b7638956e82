"""Every command says what it is for, with examples that work."""

import shlex

import pytest

from licorne_cli.commands import command_of, installed_commands, main, parser_for

EXAMPLES = [
    *(example for name in installed_commands() for example in command_of(name).examples),
]


@pytest.mark.parametrize("name", installed_commands())
def test_help_has_examples(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    """`--help` ends with examples of this very command, one of them at least."""
    with pytest.raises(SystemExit) as ended:
        main([name, "--help"])
    assert ended.value.code == 0
    _, _, examples = capsys.readouterr().out.partition("\nexamples:\n")
    assert f"  licorne {name}" in examples


@pytest.mark.parametrize(("example", "purpose"), EXAMPLES)
def test_examples_are_understood(example: str, purpose: str) -> None:
    """Every example has arguments that the command takes, and says what it is good for."""
    words = shlex.split(example)
    end = next((at for at, word in enumerate(words) if word in ("<", ">", "|")), len(words))
    assert words[0] == "licorne"
    assert parser_for(words[1]).parse_args(words[1:end]).command == words[1]
    assert purpose


def test_all_commands_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    """`licorne --help` has a line for each."""
    with pytest.raises(SystemExit):
        main(["--help"])
    shown = capsys.readouterr().out
    assert all(f"    {name} " in shown or f"    {name}\n" in shown for name in installed_commands())
