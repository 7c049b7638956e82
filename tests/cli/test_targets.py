"""Several members of a deployment as the target of a command."""

import argparse
import re
from pathlib import Path

import pytest
import yaml

from licorne_cli.commands import main, parser_for
from licorne_cli.connection import target
from licorne_cli.connection.contexts import PATH_VARIABLE
from support.peers.town import Town
from support.surroundings import CLOSED


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The path of a file of contexts that does not exist yet."""
    path = tmp_path / "contexts.yaml"
    monkeypatch.setenv(PATH_VARIABLE, str(path))
    return path


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("a,,b", "''"),
        ("a,b:x", "'b:x'"),
        ("a:70000", "'a:70000'"),
        ("a,http://b", "'http://b'"),
        ("a b,c", "'a b'"),
        ("[::1,b", "'[::1'"),
        ("a,", "''"),
        ("a,7071", "'7071'"),
    ],
)
def test_an_invalid_target_in_a_list_is_named(
    text: str,
    named: str,
    file: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """The target may be in an option, a variable or a context, and no server is called."""
    said = f"{named} is no target: HOST, :PORT or HOST:PORT was expected"
    with pytest.raises(argparse.ArgumentTypeError, match=f"^{re.escape(said)}$"):
        target.targets(text)
    monkeypatch.setenv("LICORNE_TARGET", text)
    assert main(["nodes"]) == 1
    assert capsys.readouterr().err == f"licorne: {said}\n"
    monkeypatch.delenv("LICORNE_TARGET")
    file.write_text(yaml.safe_dump({"current": "c", "contexts": {"c": {"target": text.split(",")}}}))
    assert main(["nodes"]) == 1
    assert capsys.readouterr().err == f"licorne: {said}\n"


MEMBERS = """
current: all
contexts:
  all: {target: [a, "b:2", c], token: token}
"""


@pytest.mark.parametrize(
    ("arguments", "token"),
    [((), "token"), (("--target", "b:2,a"), "token"), (("--target", "a,d"), None), (("--target", "d"), None)],
)
def test_a_token_stays_in_its_context(arguments: tuple[str, ...], token: str | None, file: Path) -> None:
    """Fewer targets than those of the context may be given with its token, but no others."""
    file.write_text(MEMBERS)
    args = parser_for("nodes").parse_args(["nodes", *arguments])
    target.settle(args)
    assert arguments or args.targets == ["a:7070", "b:2", "c:7070"]
    assert args.token == (token and file.parent / token)


async def test_the_first_target_that_answers_is_used(town: Town, capsys: pytest.CaptureFixture[str]) -> None:
    """Messages name the target in use; without one they name all targets."""
    town.shell.target = f"{CLOSED},{town.shell.target}"
    there = town.shell.target.partition(",")[2]
    assert (await town.shell("version")).out.splitlines()[1].startswith(f"server {there}: ")
    town.shell.target = f"{CLOSED},127.0.0.2:1"
    result = await town.shell("nodes")
    assert (result.code, result.err.startswith(f"licorne: cannot reach {CLOSED}, 127.0.0.2:1: ")) == (2, True)
