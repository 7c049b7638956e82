"""`validate-config` on standard input and into a closed pipe, and empty configurations."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from licorne_cli.commands import main
from licorne_core.config import load
from licorne_core.config.properties import PROPERTIES
from licorne_server.process.settings import Address
from support.patience import PATIENCE

VALIDATE = (sys.executable, "-m", "licorne_server", "validate-config")
GOOD = "partitions: [{name: default, queues: [{name: a, submitacl: '*'}]}]\n"


def validated(text: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """The output of `validate-config -` for a text."""
    return subprocess.run(
        [*VALIDATE, *arguments, "-"],
        input=text,
        capture_output=True,
        text=True,
        check=False,
        timeout=PATIENCE,
    )


@pytest.mark.slow
def test_standard_input_is_checked_like_a_file() -> None:
    """A text on standard input is checked like a file, under the name <stdin>."""
    done = validated(GOOD)
    valid = f"<stdin>: valid, checksum {load(GOOD).checksum}\n"
    assert (done.returncode, done.stdout, done.stderr) == (0, "", valid)
    done = validated("partitions: [{queue: [{name: a}]}]")
    assert done.returncode == 4
    problem = "<stdin>:1:15: partitions[0].queue: unknown key 'queue', did you mean 'queues'?"
    assert problem in done.stdout.splitlines()


@pytest.mark.parametrize("output", ["text", "json", "github"])
def test_a_closed_pipe_is_no_failure(tmp_path: Path, output: str) -> None:
    """A pipe that its reader has closed causes no stack trace."""
    file = tmp_path / "bad.yaml"
    file.write_text("partitions:\n" + "- {a: b}\n" * 400)
    reading, writing = os.pipe()
    os.close(reading)
    done = subprocess.run(
        [*VALIDATE, str(file), "-o", output],
        stdout=writing,
        stderr=subprocess.PIPE,
        text=True,
        check=False,
        timeout=PATIENCE,
    )
    os.close(writing)
    assert done.returncode == 4
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("text", ["", "# nothing yet\n", "---\n", "null"])
def test_an_empty_file_is_a_problem(tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str) -> None:
    """An empty configuration file is a problem, also for `serve`."""
    file = tmp_path / "empty.yaml"
    file.write_text(text)
    assert main(["validate-config", str(file)]) == 4
    assert capsys.readouterr().out.startswith(f"{file}:")
    assert main(["serve", "--config", str(file), "--listen", "127.0.0.1:0", "--http", "off"]) == 1
    assert "the default configuration is refused:" in capsys.readouterr().err


@pytest.mark.parametrize("key", PROPERTIES)
def test_misspelled_keys_are_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str], key: str) -> None:
    """A key that resembles a known one is a problem with --strict; other unknown keys are allowed."""
    file = tmp_path / "queues.yaml"
    wrong = key[:3] + key[4:]
    file.write_text(f"partitions: [{{queues: [{{name: a, properties: {{{wrong}: '1', team: b}}}}]}}]")
    assert main(["validate-config", str(file)]) == 0
    [warning] = [line for line in capsys.readouterr().out.splitlines() if "means nothing" in line]
    path = f"partitions[0].queues[0].properties.{wrong}"
    assert warning == (
        f"{file}:1:{warning.split(':')[2]}: {path}: property {wrong} means nothing, "
        f"did you mean '{key}'? (warning)"
    )
    assert main(["validate-config", "--strict", str(file)]) == 4


def test_a_port_without_a_host_means_every_interface() -> None:
    """`--listen :7070` is accepted, together with the options for serving other hosts."""
    assert str(Address.parse(":7070")) == "0.0.0.0:7070"
    assert not Address.parse(":7070").is_loopback
