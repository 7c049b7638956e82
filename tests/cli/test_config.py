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
from licorne_core.messages.commands import RemoveRm
from licorne_core.values.ids import RmId
from licorne_server.assembly.server import Server
from support.peers.shim import Shim, connected, serving
from support.peers.town import Result
from support.server.configuring import BROKEN, A, Admin, B, C, text, write

Licorne = Callable[..., Awaitable[Result]]


@pytest.fixture
async def channel(server: Server) -> AsyncIterator[grpc.aio.Channel]:
    """A connection on which the RM `rm` has registered."""
    async with connected(server) as channel:
        await Shim(channel).register(A)
        yield channel


@pytest.fixture
def licorne(server: Server, channel: grpc.aio.Channel, capsys: pytest.CaptureFixture[str]) -> Licorne:
    """Runs a command against the server, beside its loop."""

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


async def test_get_prints_the_text_as_it_is(licorne: Licorne, channel: grpc.aio.Channel) -> None:
    """The text of the current or an earlier revision is printed byte for byte; JSON has the metadata."""
    await Admin(channel).apply(B + "# the end, without a line break")
    result = await licorne("config", "get")
    assert (result.code, result.out, result.err) == (0, B + "# the end, without a line break", "")
    assert (await licorne("config", "get", "rm", "--revision", "1")).out == A
    shown = (await licorne("config", "get", "--rm", "rm", "-o", "json")).json
    assert (shown["revision"], shown["source"], shown["rmId"]) == (2, "operator", "rm")
    missing = await licorne("config", "get", "--revision", "7")
    assert (missing.code, missing.err) == (
        3,
        "licorne: revision 7 of RM rm is not kept: 1 to 2 are\n",
    )


async def test_rm_must_be_clear(server: Server, licorne: Licorne, channel: grpc.aio.Channel) -> None:
    """With several RMs one must be named; an unknown one is refused."""
    await Shim(channel, "other").register(C)
    several = await licorne("config", "get")
    assert (several.code, several.err) == (
        1,
        "licorne: there are several RMs, name one of them with --rm: other, rm\n",
    )
    assert (await licorne("config", "get", "other")).out == C
    assert (await licorne("config", "get", "--rm", "other")).out == C
    unknown = await licorne("config", "history", "nobody")
    assert unknown.code == 3
    assert unknown.err == 'licorne: no RM "nobody"; there are: other, rm\n'


async def test_server_without_rms_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    """Without a registered RM there is no configuration to print."""
    async with serving() as server:
        code = await asyncio.to_thread(main, ["config", "get", "--target", server.grpc_address])
    assert code == 3
    assert "no RM has registered" in capsys.readouterr().err


async def test_validate_names_every_problem(licorne: Licorne, file: Path) -> None:
    """The server's verdict: every problem with its place, and the checksum of a good file."""
    good = await licorne("config", "validate", str(file))
    assert (good.code, good.out) == (0, "")
    assert good.err.startswith(f"{file}: valid, checksum ")
    write(file, BROKEN.replace("name: a", "name: a, hue: 1"))
    bad = await licorne("config", "validate", str(file))
    assert bad.code == 4
    assert bad.out.splitlines() == [
        (
            f"{file}:5:9: partitions[0].queues[0].submitall: unknown key 'submitall', "
            "did you mean 'submitacl'?"
        ),
        f"{file}:6:28: partitions[0].queues[0].queues[0].hue: unknown key 'hue'",
    ]
    shown = (await licorne("config", "validate", str(file), "-o", "json")).json
    assert (shown["valid"], len(shown["problems"])) == (False, 2)


async def test_files_that_are_none(licorne: Licorne, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
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


async def test_diff_says_what_would_change(licorne: Licorne, file: Path) -> None:
    """The output has lines as of diff, followed by their meaning; the exit code is 1 for any difference."""
    write(file, text("a", vcore=2).replace("- name: default", "- name: default # ours"))
    result = await licorne("config", "diff", str(file))
    assert result.code == 1
    lines = result.out.splitlines()
    assert lines[:2] == ["--- rm revision 1", f"+++ {file}"]
    assert "-        queues: [{name: a}]" in lines
    assert lines[-3:] == ["what changes:", "  ~ queue root.a", "      max: - -> vcore=2"]
    shown = (await licorne("config", "diff", str(file), "rm", "-o", "json")).json
    assert shown["changes"] == ["~ queue root.a", "    max: - -> vcore=2"]


@pytest.mark.parametrize("action", ["validate", "diff"])
async def test_yaml_says_what_json_says(licorne: Licorne, file: Path, action: str) -> None:
    """Programs may have either form."""
    as_json = await licorne("config", action, str(file), "-o", "json")
    as_yaml = await licorne("config", action, str(file), "-o", "yaml")
    assert yaml.safe_load(as_yaml.out) == as_json.json
    assert as_yaml.code == as_json.code


async def test_diff_ends_as_diff_does(
    licorne: Licorne, file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """0 for the same, 1 for something else than that, and more for trouble, wrong usage too."""
    write(file, A)
    same = await licorne("config", "diff", str(file))
    assert (same.code, same.out) == (0, "")
    write(file, f"# as it is\n{A}")
    other = await licorne("config", "diff", str(file))
    assert (other.code, other.out.splitlines()[-1]) == (1, "what changes: nothing but the text")
    write(file, BROKEN)
    invalid = await licorne("config", "diff", str(file))
    unknown = "what changes: not known, as one of the two is not valid: see config validate"
    assert (invalid.code, invalid.out.splitlines()[-1]) == (1, unknown)
    assert (await licorne("config", "diff", str(file), "-o", "json")).json["changes"] is None
    assert (await licorne("config", "diff", "/no/such/file")).code == 5
    with pytest.raises(SystemExit) as ended:
        main(["config", "diff", "--hue"])
    assert ended.value.code == 5
    assert "usage: licorne config diff" in capsys.readouterr().err
    with pytest.raises(SystemExit) as ended:
        main(["config", "apply", "--hue"])
    assert ended.value.code == 1


async def test_apply_puts_a_file_into_force(licorne: Licorne, file: Path, channel: grpc.aio.Channel) -> None:
    """The difference is printed, the history has the comment, and the output says how long it lasts."""
    alone = await licorne("config", "apply", str(file))
    assert alone.code == 1
    assert alone.err.endswith("licorne: nothing was changed: say --yes to do it\n")
    result = await licorne("config", "apply", str(file), "--message", "b is better", "--yes")
    assert result.code == 0
    assert "  - queue root.a" in result.out.splitlines()
    assert "  + queue root.b" in result.out.splitlines()
    assert result.err == (
        "RM rm: revision 2 is in force\n"
        "the server has no --state-dir: after its restart the RM's registration, or the server's "
        "--config, is in force again\n"
    )
    assert await Admin(channel).in_force() == (B, 2, "operator")
    rows = (await licorne("config", "history")).rows
    assert [(row[0], row[2], row[3]) for row in rows] == [
        ("REVISION", "SOURCE", "BY"),
        ("2", "operator", "127.0.0.1"),
        ("1", "registration", "127.0.0.1"),
    ]
    assert " ".join(rows[1][5:]) == "b is better"
    again = await licorne("config", "apply", str(file))
    assert (again.code, again.err) == (0, "RM rm runs this already, as revision 2\n")
    shown = (await licorne("config", "history", "-o", "json")).json
    assert [revision["revision"] for revision in shown["revisions"]] == [2, 1]


async def test_apply_of_what_runs_keeps_it_in_force(
    licorne: Licorne, channel: grpc.aio.Channel, file: Path
) -> None:
    """The text that the RM brought is a revision of an operator then; a second time it is not."""
    write(file, A)
    result = await licorne("config", "apply", str(file), "--yes")
    assert result.code == 0
    first, second, *_ = [line for line in result.err.splitlines() if line.startswith("RM rm")]
    assert first == (
        "RM rm runs this already, as revision 1 (registration). Once it is applied it stays in "
        "force until something else is applied."
    )
    assert second == "RM rm: revision 2 is in force, with the text that ran already"
    assert await Admin(channel).in_force() == (A, 2, "operator")
    again = await licorne("config", "apply", str(file))
    assert (again.code, again.err) == (0, "RM rm runs this already, as revision 2\n")


async def test_an_rm_that_is_not_there_now_can_be_configured(
    licorne: Licorne, server: Server, channel: grpc.aio.Channel, file: Path
) -> None:
    """The output says that the change comes into force when the RM registers."""
    await Shim(channel, "away").register(A)
    await server.engine.submit(RemoveRm(rm_id=RmId("away")))
    server.rms.forget(RmId("away"))
    result = await licorne("config", "get", "away")
    assert (result.code, result.out) == (0, A)
    assert result.err == ("RM away is not registered now: this comes into force when it registers\n")
    result = await licorne("config", "apply", str(file), "away", "--yes")
    assert result.code == 0
    assert "RM away: revision 2 comes into force when the RM registers\n" in result.err
    assert (await licorne("config", "history", "away")).rows[1][0] == "2"
    result = await licorne("config", "rollback", "away", "--yes")
    assert "RM away: revision 3 comes into force when the RM registers\n" in result.err
    result = await licorne("config", "plan", str(file), "away")
    assert result.code == 3


async def test_apply_of_a_stale_base_names_who_was_faster(
    licorne: Licorne, file: Path, channel: grpc.aio.Channel
) -> None:
    """No change is made, and the newer revisions are printed with their reasons."""
    await Admin(channel).apply(C, comment="quick fix")
    result = await licorne("config", "apply", str(file), "--base", "1", "--yes")
    assert result.code == 4
    head, line = result.err.splitlines()
    assert head == (
        "licorne: nothing was changed: revision 1 of RM rm does not run any more. Since then came:"
    )
    assert line.startswith("  revision 2 of ")
    assert line.endswith("(operator, 127.0.0.1): quick fix")
    assert (await Admin(channel).in_force())[0] == C
    never = await licorne("config", "apply", str(file), "--base", "9", "--yes")
    assert never.err == ("licorne: nothing was changed: revision 9 of RM rm does not run, and never did\n")


async def test_apply_of_a_bad_file_names_every_problem(licorne: Licorne, file: Path) -> None:
    """The problems have the form of validate-config, whether parsing or the queues refuse the file."""
    write(file, BROKEN)
    result = await licorne("config", "apply", str(file), "--yes")
    assert (result.code, result.err) == (
        4,
        (
            f"{file}:5:9: partitions[0].queues[0].submitall: unknown key 'submitall', "
            "did you mean 'submitacl'?\n"
        ),
    )
    assert result.out == ""


class Terminal(io.StringIO):
    """Somebody who types an answer."""

    def isatty(self) -> bool:
        """True."""
        return True


@pytest.mark.parametrize(("answer", "source"), [("y\n", "operator"), ("\n", "registration")])
async def test_apply_asks_on_a_terminal(
    licorne: Licorne,
    file: Path,
    channel: grpc.aio.Channel,
    monkeypatch: pytest.MonkeyPatch,
    answer: str,
    source: str,
) -> None:
    """Only a yes changes anything."""
    monkeypatch.setattr("sys.stdin", Terminal(answer))
    result = await licorne("config", "apply", str(file))
    assert f"Put {file} into force for RM rm? [y/N]" in result.err
    assert (await Admin(channel).in_force())[2] == source
    assert result.code == (0 if source == "operator" else 1)


async def test_rollback_shows_and_applies_an_earlier_revision(
    licorne: Licorne, channel: grpc.aio.Channel
) -> None:
    """Rollback applies the previous or any retained revision; the first one has no previous."""
    first = await licorne("config", "rollback", "--yes")
    assert (first.code, first.err) == (
        3,
        "licorne: RM rm has had no other configuration than the first\n",
    )
    admin = Admin(channel)
    for config in (B, C):
        await admin.apply(config)
    result = await licorne("config", "rollback", "--yes")
    assert result.code == 0
    assert "+++ revision 2" in result.out.splitlines()
    assert await admin.in_force() == (B, 4, "rollback")
    await licorne("config", "rollback", "rm", "--to", "1", "--yes", "--message", "all wrong")
    assert await admin.in_force() == (A, 5, "rollback")
    latest, *_ = await admin.history()
    assert latest.comment == "all wrong"


async def test_reload_without_a_file_says_so(licorne: Licorne) -> None:
    """A server that was started without --config has nothing to read."""
    result = await licorne("reload")
    assert result.code == 4
    assert "the server was started without --config" in result.err


async def test_reload_shows_each_rm(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A line for each RM that runs the file's configuration; all problems of a bad file."""
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
