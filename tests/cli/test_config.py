"""`licorne config …` and `licorne reload` against a running server."""

import asyncio
import io
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import grpc
import pytest
import yaml

from licorne_cli.commands import main
from licorne_core.config import load
from licorne_server.assembly.server import Server
from support.peers.shim import Shim, connected, serving
from support.peers.town import Result
from support.server.configuring import BROKEN, A, Admin, B, C, write

Licorne = Callable[..., Awaitable[Result]]


@pytest.fixture
async def channel(server: Server) -> AsyncIterator[grpc.aio.Channel]:
    """A connection on which the RM `rm` has registered."""
    async with connected(server) as channel:
        await Shim(channel).register(A)
        yield channel


@pytest.fixture
def licorne(server: Server, channel: grpc.aio.Channel, capsys: pytest.CaptureFixture[str]) -> Licorne:
    """Run a command against the server, outside its event loop."""

    async def run(*words: str) -> Result:
        capsys.readouterr()
        code = await asyncio.to_thread(main, [*words, "--target", server.grpc_address])
        captured = capsys.readouterr()
        return Result(code, captured.out, captured.err)

    return run


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """A file with another configuration."""
    path = tmp_path / "queues.yaml"
    path.write_text(B, encoding="utf-8")
    return path


async def test_no_configuration_without_rms(capsys: pytest.CaptureFixture[str]) -> None:
    """Without a registered RM there is no configuration to print, and the message says so."""
    async with serving() as server:
        code = await asyncio.to_thread(main, ["config", "get", "--target", server.grpc_address])
    assert code == 3
    assert "no RM has registered" in capsys.readouterr().err


async def test_unusable_configuration_files_are_refused(
    licorne: Licorne, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A missing, empty, too large or binary file is a usage error with the reason."""
    empty, large, binary = (tmp_path / name for name in ("empty", "large", "binary"))
    empty.write_text("\n \n")
    large.write_bytes(b"#" * (2 * 1024 * 1024 + 1))
    binary.write_bytes(b"\xff\xfe")
    for path, problem in (
        (tmp_path / "none", f"cannot read {tmp_path / 'none'}: No such file or directory"),
        (empty, f"{empty} is empty, which is no configuration"),
        (large, f"{large} is larger than 2097152 bytes"),
        (binary, f"{binary} is not UTF-8"),
    ):
        result = await licorne("config", "apply", str(path))
        assert result.code == 1
        assert problem in result.err
    standard_input = io.TextIOWrapper(io.BytesIO(b""))
    monkeypatch.setattr("sys.stdin", standard_input)
    assert "stdin is empty" in (await licorne("config", "validate", "-")).err


@pytest.mark.parametrize("action", ["validate", "diff"])
async def test_yaml_output_equals_json_output(licorne: Licorne, file: Path, action: str) -> None:
    """Problems and differences have the same content in YAML and JSON."""
    as_json = await licorne("config", action, str(file), "-o", "json")
    as_yaml = await licorne("config", action, str(file), "-o", "yaml")
    assert yaml.safe_load(as_yaml.out) == as_json.json
    assert as_yaml.code == as_json.code


class Terminal(io.StringIO):
    """A terminal that types an answer."""

    def isatty(self) -> bool:
        """True."""
        return True


@pytest.mark.parametrize(("answer", "source"), [("y\n", "operator"), ("\n", "registration")])
async def test_apply_requests_consent_on_a_terminal(
    licorne: Licorne,
    file: Path,
    channel: grpc.aio.Channel,
    monkeypatch: pytest.MonkeyPatch,
    answer: str,
    source: str,
) -> None:
    """Only a yes applies the configuration."""
    monkeypatch.setattr("sys.stdin", Terminal(answer))
    result = await licorne("config", "apply", str(file))
    assert f"Put {file} into force for RM rm? [y/N]" in result.err
    assert (await Admin(channel).in_force())[2] == source
    assert result.code == (0 if source == "operator" else 1)


async def test_reload_lists_each_rm(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Reload prints a line for each RM with the file's configuration, or all problems of the file."""
    file = tmp_path / "default.yaml"
    write(file, A)

    async def reload(*words: str) -> Any:
        capsys.readouterr()
        code = await asyncio.to_thread(main, ["reload", "--target", target, *words])
        return code, capsys.readouterr()

    async with (
        serving(default_config=load(A), config_file=file) as served,
        connected(served) as channel,
    ):
        target = served.grpc_address
        for name, config in (("one", ""), ("two", ""), ("own", C)):
            await Shim(channel, name).register(config)
        write(file, B)
        code, printed = await reload()
        assert code == 0
        assert [line.split() for line in printed.out.splitlines()[-3:]] == [
            ["RM", "REVISION", "RESULT"],
            ["one", "2", "changed"],
            ["two", "2", "changed"],
        ]
        code, printed = await reload("-o", "json")
        shown = json.loads(printed.out[printed.out.index("{") :])
        assert (shown["changed"], [rm["changed"] for rm in shown["rms"]]) == (False, [False, False])
        write(file, BROKEN)
        code, printed = await reload()
        assert code == 4
        assert f"{file}:5:9: partitions[0].queues[0].submitall: unknown key" in printed.err
