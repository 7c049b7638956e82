"""``licorne validate-config``: exit codes and output (DESIGN § 5)."""

import json
from pathlib import Path

import pytest

from licorne_cli.commands import main
from licorne_core.config import load

GOOD = "partitions:\n  - name: default\n    queues: [{name: a, submitacl: ann}]\n"
BAD = "partitions:\n  - name: default\n    queues:\n      - name: a.b\n        colour: red\n"
DUBIOUS = "partitions: [{queues: [{name: a, parent: false, queues: [{name: b, submitacl: ann}]}]}]\n"

NAME_PROBLEM = (
    "4:15: partitions[0].queues[0].name: invalid queue name, max 64 characters consisting of "
    "alphanumeric characters and '-', '_', '#', '@', '/', ':' allowed, found 'a.b'"
)
KEY_PROBLEM = "5:9: partitions[0].queues[0].colour: unknown key 'colour'"


@pytest.fixture
def written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder to be in, with one file of each kind."""
    for name, text in (("good", GOOD), ("bad", BAD), ("dubious", DUBIOUS)):
        (tmp_path / f"{name}.yaml").write_text(text, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def check(*arguments: str) -> int:
    """The exit code of the command."""
    return main(["validate-config", *arguments])


def test_a_valid_file(written: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Exit code 0, nothing on standard output, the checksum on standard error."""
    assert check("good.yaml") == 0
    out, err = capsys.readouterr()
    assert (out, err) == ("", f"good.yaml: valid, checksum {load(GOOD).checksum}\n")


@pytest.mark.row(25, 56, 58)
def test_an_invalid_file(written: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The exit code is 4, and every problem has a line of its own that an editor can jump to."""
    assert check("bad.yaml") == 4
    out, err = capsys.readouterr()
    assert out.splitlines() == [f"bad.yaml:{NAME_PROBLEM}", f"bad.yaml:{KEY_PROBLEM}"]
    assert err == "bad.yaml: 2 problems\n"


def test_what_keys_do_not_do_is_said_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Published keys with less effect than their names say are accepted, with one note each."""
    file = tmp_path / "queues.yaml"
    queues = "queues: [{name: root, adminacl: ann, queues: [{name: a, adminacl: bob}, {name: b}]}]"
    file.write_text(f"checksum: {'A1' * 32}\npartitions: [{{usergroupresolver: {{type: os}}, {queues}}}]\n")
    assert check("--strict", str(file)) == 0
    out, err = capsys.readouterr()
    assert out == ""
    assert err.splitlines()[:-1] == [
        f"{file}: note: adminacl grants no right but to submit",
        f"{file}: note: checksum is not compared with that of the text",
        f"{file}: note: usergroupresolver does nothing: a user without groups is in one of the same name",
    ]
    assert check("-o", "json", str(file)) == 0
    assert len(json.loads(capsys.readouterr().out)[0]["notes"]) == 3


@pytest.mark.parametrize("name", ["nowhere.yaml", "."])
def test_an_unreadable_file(written: Path, capsys: pytest.CaptureFixture[str], name: str) -> None:
    """Exit code 2, with the reason on standard error."""
    assert check(name) == 1
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith(f"{name}: cannot be read: ")


def test_no_file(capsys: pytest.CaptureFixture[str]) -> None:
    """The exit code is 1."""
    with pytest.raises(SystemExit) as ended:
        check()
    assert ended.value.code == 1
    assert "FILE" in capsys.readouterr().err


def test_several_files(written: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """All files are checked, and the worst one determines the exit code."""
    assert check("bad.yaml", "nowhere.yaml", "good.yaml") == 4
    assert check("nowhere.yaml", "good.yaml") == 1
    assert capsys.readouterr().out.count("bad.yaml:") == 2


@pytest.mark.row(28)
def test_strict(written: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A doubtful value is a warning, and a problem in strict mode."""
    assert check("dubious.yaml") == 0
    assert capsys.readouterr().out == (
        "dubious.yaml:1:42: partitions[0].queues[0].parent: a queue with child queues is a "
        "parent, whatever 'parent: false' says (warning)\n"
    )
    assert check("dubious.yaml", "--strict") == 4


def test_json(written: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """JSON has one object for each file, and problems with their places."""
    assert check("good.yaml", "bad.yaml", "nowhere.yaml", "-o", "json") == 4
    good, bad, nowhere = json.loads(capsys.readouterr().out)
    assert good == {
        "file": "good.yaml",
        "valid": True,
        "checksum": load(GOOD).checksum,
        "unreadable": "",
        "problems": [],
        "warnings": [],
        "notes": [],
    }
    assert (bad["valid"], bad["problems"][1]) == (
        False,
        {
            "message": "unknown key 'colour'",
            "path": "partitions[0].queues[0].colour",
            "line": 5,
            "column": 9,
        },
    )
    assert (nowhere["valid"], bool(nowhere["unreadable"])) == (False, True)


def test_github(written: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """In workflow commands each problem has its line, with reserved characters escaped."""
    Path("a,b:c.yaml").write_text(BAD.replace("red", "100%"), encoding="utf-8")
    assert check("a,b:c.yaml", "dubious.yaml", "-o", "github") == 4
    lines = capsys.readouterr().out.splitlines()
    assert lines[1] == (
        "::error file=a%2Cb%3Ac.yaml,line=5,col=9::partitions[0].queues[0].colour: unknown key 'colour'"
    )
    assert lines[2].startswith("::warning file=dubious.yaml::1:42: partitions[0]")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"partitions: [{name: \xe4}]", "1:21: not valid UTF-8"),
        (b"[" * 100_000, "1:33: nested deeper than 32 levels"),
        (b"x" * 3_000_000, " the configuration is larger than 2097152 bytes"),
    ],
)
def test_files_made_to_hurt(
    written: Path, capsys: pytest.CaptureFixture[str], content: bytes, message: str
) -> None:
    """A hostile file is one problem, and never a stack trace."""
    Path("odd.yaml").write_bytes(content)
    assert check("odd.yaml") == 4
    assert capsys.readouterr().out == f"odd.yaml:{message}\n"
