"""``licorne validate-config``: exit codes and output (DESIGN § 5)."""

from pathlib import Path

import pytest

from licorne_cli.commands import main

GOOD = "partitions:\n  - name: default\n    queues: [{name: a, submitacl: ann}]\n"
BAD = "partitions:\n  - name: default\n    queues:\n      - name: a.b\n        colour: red\n"
DUBIOUS = "partitions: [{queues: [{name: a, parent: false, queues: [{name: b, submitacl: ann}]}]}]\n"


@pytest.fixture
def written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder, with one file of each kind."""
    for name, text in (("good", GOOD), ("bad", BAD), ("dubious", DUBIOUS)):
        (tmp_path / f"{name}.yaml").write_text(text, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def check(*arguments: str) -> int:
    """The exit code of the command."""
    return main(["validate-config", *arguments])


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"partitions: [{name: \xe4}]", "1:21: not valid UTF-8"),
        (b"[" * 100_000, "1:33: nested deeper than 32 levels"),
        (b"x" * 3_000_000, " the configuration is larger than 2097152 bytes"),
    ],
)
def test_a_hostile_file_is_one_problem(
    written: Path, capsys: pytest.CaptureFixture[str], content: bytes, message: str
) -> None:
    """A hostile file gives one problem, and never a stack trace."""
    Path("odd.yaml").write_bytes(content)
    assert check("odd.yaml") == 4
    assert capsys.readouterr().out == f"odd.yaml:{message}\n"
