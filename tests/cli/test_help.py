"""Every command has a description and working examples."""

import shlex

import pytest

from licorne_cli.commands import command_of, installed_commands, main, parser_for

EXAMPLES = [
    *(example for name in installed_commands() for example in command_of(name).examples),
]


@pytest.mark.parametrize("name", installed_commands())
def test_help_ends_with_examples(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    """`--help` ends with at least one example of the command."""
    with pytest.raises(SystemExit) as ended:
        main([name, "--help"])
    assert ended.value.code == 0
    _, _, examples = capsys.readouterr().out.partition("\nexamples:\n")
    assert f"  licorne {name}" in examples


@pytest.mark.parametrize(("example", "purpose"), EXAMPLES)
def test_examples_have_valid_arguments(example: str, purpose: str) -> None:
    """Every example has arguments that the command accepts, and a purpose."""
    words = shlex.split(example)
    end = next((at for at, word in enumerate(words) if word in ("<", ">", "|")), len(words))
    assert words[0] == "licorne"
    assert parser_for(words[1]).parse_line(words[1:end]).command == words[1]
    assert purpose


@pytest.mark.parametrize(
    ("words", "shown"),
    [
        (("help",), ("--help",)),
        (("help", "queues"), ("queues", "--help")),
        (("help", "nodes", "drain"), ("nodes", "drain", "--help")),
        (("--rm", "blue", "queues", "stop", "--help"), ("queues", "stop", "--help")),
    ],
)
def test_help_equals_the_help_option(
    words: tuple[str, ...], shown: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    """`help` prints the output of `--help`, also for a verb."""
    printed = []
    for line in (words, shown):
        with pytest.raises(SystemExit) as ended:
            main(line)
        printed.append((ended.value.code, capsys.readouterr()))
    assert printed[0] == printed[1]
    assert (printed[0][0], printed[0][1].err) == (0, "")
