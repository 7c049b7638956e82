"""The pages for operators: options, environment, the systemd unit, the container."""

import ast
import shlex
from collections.abc import Iterator
from configparser import RawConfigParser, SectionProxy

import pytest
import yaml

from licorne_cli.commands import parser_for
from licorne_cli.connection.target import VARIABLES
from licorne_server.commands.serve_options import FLAGS, reading_of, settings_of
from licorne_server.commands.settings.sources import FILE_VARIABLE, NO_RESERVATIONS
from licorne_server.commands.settings.tables import KEYS
from licorne_server.process.bounds import RESERVE, PeerBounds
from support.docs.pages import ROOT, Page, code_spans

SERVING = Page("docs/serving.md")
INSTALLING = Page("docs/installing.md")
UNIT = ROOT / "deploy" / "systemd" / "licorne.service"
UNIT_SETTINGS = UNIT.with_name("licorne.toml")
CONFINED = (
    "LockPersonality", "MemoryDenyWriteExecute", "NoNewPrivileges", "PrivateDevices", "PrivateIPC",
    "PrivateTmp", "PrivateUsers", "ProtectClock", "ProtectControlGroups", "ProtectHome",
    "ProtectHostname", "ProtectKernelLogs", "ProtectKernelModules", "ProtectKernelTunables",
    "RemoveIPC", "RestrictNamespaces", "RestrictRealtime", "RestrictSUIDSGID",
)  # fmt: skip
"""Directives that only disable something."""
READ_BY_LIBRARIES = {"COLUMNS", "GRPC_VERBOSITY"}


def test_the_page_has_bounds_and_the_number_of_flags() -> None:
    """The page has the keys for bounds of one RM, and the number of flags of the parser."""
    rows = Page("docs/bounds.md").table("How much may an RM have?")
    assert all(f"bounds.{name}" in KEYS for row in rows for name in code_spans(row[0]))
    assert f"lists the {len(FLAGS) + 1} flags" in SERVING.path.read_text(encoding="utf-8")


def assigned(node: ast.Assign) -> Iterator[tuple[str, object]]:
    """The names that an assignment gives constants, each with its constant."""
    for target in node.targets:
        pairs = [(target, node.value)]
        if isinstance(target, ast.Tuple) and isinstance(node.value, ast.Tuple):
            pairs = list(zip(target.elts, node.value.elts, strict=True))
        for name, value in pairs:
            if isinstance(name, ast.Name) and isinstance(value, ast.Constant):
                yield name.id, value.value


def asked_for(tree: ast.Module) -> Iterator[str]:
    """The names of environment variables that a file reads."""
    constants = dict(pair for node in tree.body if isinstance(node, ast.Assign) for pair in assigned(node))
    for node in ast.walk(tree):
        match node:
            case ast.Call(func=ast.Attribute(value=ast.Attribute(attr="environ")), args=[name, *_]):
                found = name
            case ast.Subscript(value=ast.Attribute(attr="environ"), slice=name):
                found = name
            case ast.Compare(left=name, comparators=[ast.Attribute(attr="environ")]):
                found = name
            case _:
                continue
        if isinstance(found, ast.Constant):
            yield str(found.value)
        elif isinstance(found, ast.Name) and found.id in constants:
            yield str(constants[found.id])
        else:
            assert isinstance(found, ast.Name)
            assert found.id == "variable", "one of those of contexts"


@pytest.mark.slow
def test_the_page_has_every_variable() -> None:
    """The table has exactly the variables read by server, commands and clients."""
    folders = [ROOT / folder for folder in ("server", "core", "clients/python", "clients/cli")]
    trees = [ast.parse(path.read_text("utf-8")) for each in folders for path in each.rglob("*.py")]
    looked_at = {name for tree in trees for name in asked_for(tree)} | set(VARIABLES.values())
    rows = SERVING.table("Environment")
    shown = {span for row in rows for span in code_spans(row[0])}
    looked_at |= {FILE_VARIABLE, NO_RESERVATIONS}
    # The shell requests completions by these variables, and nobody sets them.
    looked_at -= {"COMP_LINE", "COMP_POINT", "_ARGCOMPLETE"}
    assert shown | set(VARIABLES.values()) == looked_at | READ_BY_LIBRARIES


def test_the_settings_of_the_unit_are_on_the_page() -> None:
    """The page shows the settings that are delivered with the systemd unit."""
    shown = [block.text for block in INSTALLING.blocks()]
    assert UNIT_SETTINGS.read_text(encoding="utf-8").rstrip() in shown


def unit_service() -> SectionProxy:
    """The settings of the unit's service section."""
    unit = RawConfigParser(strict=False)
    unit.optionxform = str  # type: ignore[assignment,method-assign]  # keys of systemd have case
    unit.read(UNIT)
    return unit["Service"]


def test_the_unit_restricts_the_server() -> None:
    """The unit allows only network, state directory and system calls of a service."""
    expected = {
        "User": "licorne",
        "KillMode": "mixed",
        "ProtectSystem": "strict",
        "ProtectProc": "invisible",
        "DevicePolicy": "closed",
        "KeyringMode": "private",
        "RestrictAddressFamilies": "AF_INET AF_INET6 AF_UNIX",
        "SystemCallArchitectures": "native",
        "SystemCallErrorNumber": "EPERM",
        "StateDirectoryMode": "0700",
        "UMask": "0077",
        "CapabilityBoundingSet": "",
        "AmbientCapabilities": "",
    } | dict.fromkeys(CONFINED, "yes")
    assert expected.items() <= dict(unit_service()).items()
    # The second line removes calls that the first one allows.
    assert "\nSystemCallFilter=@system-service\nSystemCallFilter=~@privileged\n" in UNIT.read_text("utf-8")


def test_the_unit_can_start_and_stop_the_server() -> None:
    """The command of the unit is valid, its directory the server's, its timeout covers draining."""
    service = unit_service()
    program, command, *given = shlex.split(service["ExecStart"])
    assert (command, given) == ("serve", ["--settings", f"/etc/licorne/{UNIT_SETTINGS.name}"])
    words = [command, "--settings", str(UNIT_SETTINGS)]
    tables = reading_of(parser_for("serve").parse_args(words), {}).tables
    assert program == "/opt/licorne/bin/licorne"
    assert str(tables.server.state_dir) == f"/var/lib/{service['StateDirectory']}"
    assert int(service["TimeoutStopSec"]) > tables.server.drain
    assert "-HUP" in service["ExecReload"]
    assert int(service["LimitNOFILE"]) >= files_for_all()


def files_for_all() -> int:
    """Open files needed for all connections allowed by default."""
    usual = PeerBounds()
    return usual.connections + usual.http_connections + RESERVE


def test_the_page_has_the_number_of_open_files() -> None:
    """The page has the number of needed open files."""
    [row] = [row for row in INSTALLING.table("Ports and files") if row[0] == "open files"]
    assert f"{files_for_all():,}" in row[1]


def test_the_docker_command_equals_the_compose_file() -> None:
    """The Docker command on the page has the restrictions of the compose file, and valid arguments."""
    [block] = [block for block in INSTALLING.blocks() if "docker run" in block.text]
    words = shlex.split(block.text.replace("\\\n", " "))
    compose = yaml.safe_load((ROOT / "docker-compose.yml").read_text(encoding="utf-8"))
    hardened = compose["x-licorne"]
    assert "--read-only" in words
    assert words[words.index("--tmpfs") + 1] in hardened["tmpfs"]
    assert words[words.index("--cap-drop") + 1] in hardened["cap_drop"]
    args = parser_for("serve").parse_args(words[words.index("licorne") + 1 :])
    settings = settings_of(args, {})
    settings.check()
    assert int(words[words.index("--stop-timeout") + 1]) > settings.drain


def test_exit_codes_have_one_table() -> None:
    """Exit codes of commands are listed on one page only."""
    pages = (ROOT / "docs").glob("*.md")
    found = [path.name for path in pages if "\n| Code |" in path.read_text(encoding="utf-8")]
    assert found == ["commands.md"]
