"""Selection of the server by options, the environment, and the file of contexts."""

import asyncio
import json
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml

from licorne_cli.commands import main, parser_for
from licorne_cli.connection import target
from licorne_cli.connection.contexts import PATH_VARIABLE
from licorne_cli.connection.target import DEFAULT_TARGET, VARIABLES, settle
from support.peers.shim import serving
from support.peers.town import Result, Town

Command = Callable[..., Result]


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The path of a test's file of contexts, which is empty at first."""
    path = tmp_path / "new" / "contexts.yaml"
    monkeypatch.setenv(PATH_VARIABLE, str(path))
    monkeypatch.chdir(tmp_path)
    return path


@pytest.fixture
def licorne(file: Path, capsys: pytest.CaptureFixture[str]) -> Command:
    """Run a command."""

    def run(*arguments: str) -> Result:
        code = main(arguments)
        captured = capsys.readouterr()
        return Result(code, captured.out, captured.err)

    return run


def settled(*arguments: str) -> dict[str, object]:
    """The target and identity that a command uses, without unset values."""
    args = parser_for("nodes").parse_args(["nodes", *arguments])
    settle(args)
    found = {key: getattr(args, target.dest(key)) for key in VARIABLES}
    return {key: value for key, value in found.items() if value}


def test_contexts_are_added_selected_and_removed(licorne: Command, file: Path) -> None:
    """The first context is current until another one is selected; a certificate is stored by its path."""
    made = licorne("context", "set", "test", "--target", "here:1")
    assert (made.code, made.err) == (0, f"context test is in {file}, and in use\n")
    licorne("context", "set", "prod", "--target", "there", "--tls-ca", "ca.pem", "--rm", "blue")
    assert settled() == {"target": "here:1"}
    assert licorne("context", "use", "prod").err == "context prod is in use\n"
    assert settled() == {"target": "there:7070", "tls-ca": Path.cwd() / "ca.pem", "rm": "blue"}
    assert licorne("context", "list").rows == [
        ["CURRENT", "CONTEXT", "TARGET", "TLS", "TOKEN", "PARTITION", "RM"],
        ["*", "prod", "there", "yes", "-", "-", "blue"],
        ["test", "here:1", "no", "-", "-", "-"],
    ]
    assert licorne("context", "list", "-o", "name").out == "context/prod\ncontext/test\n"
    licorne("context", "set", "prod", "--rm", "", "--tls-ca", "", "--tls")
    shown = licorne("context", "show", "-o", "json").json
    assert shown == {"name": "prod", "target": "there", "tls": True}
    assert ["target", "there"] in licorne("context", "show", "prod").rows
    assert licorne("context", "delete", "prod").code == 0
    assert settled() == {"target": DEFAULT_TARGET}
    assert yaml.safe_load(file.read_text()) == {
        "current": "",
        "contexts": {"test": {"target": "here:1"}},
    }
    assert licorne("context", "show").err == "licorne: no context is in use\n"


def test_the_default_target_is_this_machine(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a file, an option and a variable, commands connect to this machine."""
    assert settled() == {"target": DEFAULT_TARGET}
    monkeypatch.delenv(PATH_VARIABLE)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(file.parent.parent))
    assert settled() == {"target": DEFAULT_TARGET}
    assert main(["context", "set", "a", "--target", "a"]) == 0
    assert (file.parent.parent / "licorne" / "contexts.yaml").exists()


PLACES = """\
current: one
contexts:
  one: {target: one, token: token, partition: p}
  two: {target: two:2, tls: true, tls-server-name: two, rm: green}
  bare: {rm: b}
"""


@pytest.mark.parametrize(
    ("arguments", "environment", "expected"),
    [
        ((), {}, {"target": "one:7070", "token": "token", "partition": "p"}),
        (("--partition", "q"), {}, {"target": "one:7070", "token": "token", "partition": "q"}),
        (
            (),
            {"LICORNE_PARTITION": "e"},
            {"target": "one:7070", "token": "token", "partition": "e"},
        ),
        (("--target", "x"), {}, {"target": "x:7070"}),
        ((), {"LICORNE_TARGET": "e:1"}, {"target": "e:1"}),
        (
            (),
            {"LICORNE_TARGET": "e:1", "LICORNE_TLS": "1", "LICORNE_RM": "r"},
            {"target": "e:1", "tls": True, "rm": "r"},
        ),
        (("--target", "x:1"), {"LICORNE_TARGET": "e:1"}, {"target": "x:1"}),
        (
            ("--context", "two"),
            {"LICORNE_TARGET": "e:1", "LICORNE_RM": "r"},
            {"target": "two:2", "tls": True, "tls-server-name": "two", "rm": "green"},
        ),
        (
            (),
            {"LICORNE_CONTEXT": "two"},
            {"target": "two:2", "tls": True, "tls-server-name": "two", "rm": "green"},
        ),
        (
            ("--target", "x", "--context", "one"),
            {},
            {"target": "x:7070", "token": "token", "partition": "p"},
        ),
        (("--target", "x"), {"LICORNE_CONTEXT": "two"}, {"target": "x:7070"}),
        (
            (),
            {"LICORNE_CONTEXT": "one", "LICORNE_TARGET": "e:1"},
            {"target": "e:1"},
        ),
        (
            (),
            {"LICORNE_CONTEXT": "one", "LICORNE_TARGET": "one"},
            {"target": "one:7070", "token": "token", "partition": "p"},
        ),
        (("--target", "one"), {}, {"target": "one:7070", "token": "token", "partition": "p"}),
        (("--context", "bare"), {"LICORNE_TARGET": "e:1"}, {"target": DEFAULT_TARGET, "rm": "b"}),
        (("--target", "x"), {"LICORNE_CONTEXT": "nosuch"}, {"target": "x:7070"}),
        (
            ("--target", "x"),
            {"LICORNE_TARGET": "e:1", "LICORNE_TOKEN_FILE": "t", "LICORNE_RM": "r"},
            {"target": "x:7070", "rm": "r"},
        ),
        (
            ("--context", "two"),
            {"LICORNE_TARGET": "http://e", "LICORNE_TLS_CERT": "c"},
            {"target": "two:2", "tls": True, "tls-server-name": "two", "rm": "green"},
        ),
        (
            ("--target", "x", "--partition", "[a]p"),
            {"LICORNE_RM": "r"},
            {"target": "x:7070", "partition": "[a]p"},
        ),
        (
            ("--target", "x", "--rm", "r"),
            {"LICORNE_PARTITION": "[a]p"},
            {"target": "x:7070", "rm": "r"},
        ),
        (
            ("--target", "x"),
            {"LICORNE_PARTITION": "[a]p", "LICORNE_RM": "a"},
            {"target": "x:7070", "partition": "[a]p", "rm": "a"},
        ),
    ],
    ids=str,
)
def test_the_precedence_of_settings(
    file: Path,
    monkeypatch: pytest.MonkeyPatch,
    arguments: tuple[str, ...],
    environment: dict[str, str],
    expected: dict[str, object],
) -> None:
    """Options precede the named context, the environment, and the current context.

    A setting of a context, or a token of the environment, is never used for another target.
    """
    file.parent.mkdir()
    file.write_text(PLACES)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    if "token" in expected:
        expected = {**expected, "token": file.parent / "token"}
    assert settled(*arguments) == expected


TOKEN = "token-of-an-operator"


async def test_a_token_is_sent_to_its_own_server_only(
    file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another server does not get the token; its refusal is explained, and --token overrides."""
    token = tmp_path / "token"
    token.write_text(TOKEN)
    home = "home.example:7070"

    async def rms(*arguments: str) -> Result:
        capsys.readouterr()
        code = await asyncio.to_thread(main, ["rms", *arguments])
        captured = capsys.readouterr()
        return Result(code, captured.out, captured.err)

    async with serving(operator_tokens=(token,)) as server:
        assert main(["context", "set", "prod", "--target", home, "--token", str(token)]) == 0
        elsewhere = ("--target", server.grpc_address)
        result = await rms(*elsewhere)
        refusal, note = result.err.splitlines()
        assert result.code == 4
        assert "refused: UNAUTHENTICATED" in refusal
        withheld = f"the credentials of context prod are for {home}, and were not sent"
        assert note == f"licorne: {withheld}; what options name is sent"
        for named in (("--context", "prod"), ("--token", str(token))):
            assert (await rms(*elsewhere, *named)).code == 0
        monkeypatch.setenv("LICORNE_TARGET", server.grpc_address)
        for name in ("", "prod"):
            monkeypatch.setenv("LICORNE_CONTEXT", name)
            assert withheld in (await rms()).err
        monkeypatch.setenv("LICORNE_TOKEN_FILE", str(token))
        assert (await rms()).code == 0
        monkeypatch.setenv("LICORNE_TARGET", home)
        result = await rms(*elsewhere)
        assert result.code == 4
        assert f"the credentials of the environment are for {home}, and were not" in result.err


def test_an_unusable_file_of_contexts_does_not_prevent_a_target(licorne: Command, file: Path) -> None:
    """An unusable file of contexts has no effect if the target is given."""
    file.parent.mkdir()
    file.write_text("contexts: [")
    result = licorne("nodes", "--target", "127.0.0.1:1")
    assert result.code == 2
    assert "cannot reach 127.0.0.1:1" in result.err


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("contexts: {a: {tagret: x}}", " contexts.a: unknown key 'tagret', did you mean target?"),
        ("contexts: {a: {tls: often}}", " contexts.a.tls: expected true or false, found 'often'"),
        ("contexts: {a: {rm: [b]}}", " contexts.a.rm: expected a text"),
        ("current: b\ncontexts: {a: {}}", " current: there is no context b"),
        ("contexts: [", "not valid YAML"),
        ('current: "\\UFFFFFFFF"', "not valid YAML"),
        ('current: "\\U00110000"', "not valid YAML"),
        ("- a", " the file: expected a mapping"),
        ("contexts:\n  a: {}\n  a: {}", "3:3: not valid YAML: key 'a' is given twice"),
        (
            "contexts: {a: {target: [b, {c: d}]}}",
            " contexts.a.target: expected a list of texts, found {'c': 'd'}",
        ),
        (
            "contexts: {a: {target: [b, null]}}",
            " contexts.a.target: expected a list of texts, found None in it",
        ),
        ("contexts: {~: {}}", " contexts: a key is empty"),
        ("#" * 2**20 + "\n", " larger than 1048576 bytes"),
        ("contexts: {a: {<<: {tls: true}}}", " contexts.a: unknown key '<<'"),
        ("contexts: {[a, b]: {}}", "1:12: not valid YAML: found unhashable key"),
        ("contexts: &a {b: *a}", "not valid YAML: found unconstructable recursive node"),
    ],
)
def test_invalid_files_of_contexts_are_refused(licorne: Command, file: Path, text: str, problem: str) -> None:
    """The error has file and key, or line and column, and no server is called."""
    file.parent.mkdir()
    file.write_text(text)
    for command in (("nodes",), ("context", "list")):
        result = licorne(*command)
        assert (result.code, result.out) == (1, "")
        assert result.err.startswith(f"licorne: {file}:")
        assert problem in result.err


def test_context_names_may_have_special_characters(licorne: Command, file: Path) -> None:
    """A name with special characters is quoted in the file, and works like any other."""
    file.parent.mkdir()
    file.write_text("contexts: {'<<': {target: a}, 1: {target: b}}")
    assert licorne("context", "list", "-o", "name").out == "context/1\ncontext/<<\n"


def test_an_unknown_context_is_refused(licorne: Command, file: Path) -> None:
    """The message about an unknown context lists the existing ones."""
    licorne("context", "set", "a", "--target", "a")
    for command in (("nodes", "--context", "b"), ("context", "use", "b")):
        result = licorne(*command)
        expected = f"licorne: there is no context b in {file} (there: a)\n"
        assert (result.code, result.err) == (1, expected)


def test_a_file_of_contexts_that_cannot_be_read_or_written(licorne: Command, file: Path) -> None:
    """The message has the reason of the operating system."""
    file.mkdir(parents=True)
    result = licorne("context", "list")
    assert (result.code, result.err) == (1, f"licorne: cannot read {file}: Is a directory\n")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("core", "core:7070"),
        ("core:1", "core:1"),
        ("core:", "core:7070"),
        (":1", "127.0.0.1:1"),
        ("::1", "[::1]:7070"),
        ("[::1]", "[::1]:7070"),
        ("[::1]:5", "[::1]:5"),
        ("unix:/run/licorne", "unix:/run/licorne"),
        ("dns:///core:1", "dns:///core:1"),
    ],
)
def test_a_target_without_a_port_has_the_usual_port(text: str, expected: str) -> None:
    """A target may be a name or an address, with a port or without."""
    assert target.targets(text) == [expected]


async def test_variables_select_server_rm_and_partition(
    town: Town, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each variable has the effect of its option, also for RM and partition."""
    monkeypatch.setenv("LICORNE_TARGET", town.shell.target)
    monkeypatch.setenv("LICORNE_RM", "green")
    capsys.readouterr()
    assert await asyncio.to_thread(main, ["nodes", "-o", "name"]) == 0
    assert capsys.readouterr().out == "node/meadow-1\n"


async def test_version_prints_client_and_server(town: Town) -> None:
    """Both versions are printed, and a named server has to answer."""
    result = await town.shell("version")
    here, there = result.out.splitlines()
    assert there.startswith(f"server {town.shell.target}: {here.partition(',')[0]}, ")
    data = (await town.shell("version", "-o", "json")).json
    assert data["server"]["version"] == data["version"]


def test_version_without_a_server(licorne: Command, capsys: pytest.CaptureFixture[str]) -> None:
    """The version of the command is printed, and `--version` is the shortest form."""
    result = licorne("version", "--client", "-o", "json")
    assert result.json["server"] is None
    unreachable = licorne("version", "--target", "127.0.0.1:1")
    assert unreachable.code == 2
    assert unreachable.out.startswith("licorne ")
    with pytest.raises(SystemExit) as ended:
        main(["--version"])
    assert ended.value.code == 0
    assert capsys.readouterr().out == f"licorne {result.json['version']}\n"
    assert json.loads(result.out)["form"] in ("pure", "compiled")
