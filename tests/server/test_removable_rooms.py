"""Removable parts of the server: each is a folder and one line, without which the server works."""

import json
import os
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from support.docs.pages import ROOT

SERVER = ROOT / "server/licorne_server"
pytestmark = pytest.mark.slow


class Room(NamedTuple):
    """A folder of the server, and the line that names it."""

    folder: str
    table: str
    """The file with the line, below the server; empty for the entry points of the distribution."""
    line: str


ROOMS = {
    "loop": Room("transport/loop", "process/settings.py", '    LOOP: "licorne_transport",\n'),
    "page": Room("http/ui", "http/app.py", '"licorne_server.http.ui.page:Page",'),
    "kubernetes": Room(
        "store/coordination/kubernetes",
        "process/coordination.py",
        '    "kubernetes": Backend("kubernetes://NAMESPACE/NAME", lease=15.0),\n',
    ),
    "laboratory": Room("lab", "", "server-lab"),
}
LABORATORY = {"simulate", "demo", "dev", "replay", "why", "fake-rm"}
SMOKE = ("rms/test_si_streams.py", "rms/test_session.py", "http/test_health.py")
"""Tests that need no removable part."""

LOOKING = """
import asyncio, json, pkgutil
from importlib import import_module
from importlib.util import find_spec

import aiohttp
import licorne_server
from licorne_cli.commands import installed_commands
from licorne_server.assembly.server import running
from licorne_server.process.coordination import read_coordination
from licorne_server.process.settings import TRANSPORTS, Address, Settings, SettingsError, served_by

WITH_A_WHEEL = () if find_spec("licorne_transport") else ("licorne_server.transport.loop.",)
PLACE = Address(host="127.0.0.1", port=0)


async def statuses():
    async with running(Settings(listen=PLACE, http=PLACE)) as server, aiohttp.ClientSession() as client:
        paths = "/livez", "/metrics", "/ws/v1/partitions", "/ui"
        return {path: (await client.get(f"http://{server.http_address}{path}")).status for path in paths}


for module in pkgutil.walk_packages(licorne_server.__path__, "licorne_server."):
    if not module.name.startswith(WITH_A_WHEEL) and not module.name.endswith(".__main__"):
        import_module(module.name)
try:
    store = read_coordination("kubernetes://here/licorne").backend
except SettingsError as error:
    store = str(error)
print(json.dumps({
    "from": licorne_server.__file__,
    "commands": sorted(installed_commands()),
    "transports": [*TRANSPORTS, served_by("auto")],
    "store": store,
    "statuses": asyncio.run(statuses()),
}))
"""
"""A program that imports all existing modules, and prints the features of the server."""


def copied(names: tuple[str, ...], copy: Path) -> None:
    """A copy of the server without these parts, as it would be installed."""
    shutil.copytree(SERVER, copy / "licorne_server", ignore=shutil.ignore_patterns("*.so"))
    entries = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["entry-points"]
    for name in names:
        room = ROOMS[name]
        shutil.rmtree(copy / "licorne_server" / room.folder)
        if room.table:
            table = copy / "licorne_server" / room.table
            text = table.read_text(encoding="utf-8")
            assert text.count(room.line) == 1
            table.write_text(text.replace(room.line, ""), encoding="utf-8")
        else:
            del entries["licorne.commands"][room.line]
    about = copy / "licorne_server-0.1.0.dist-info"
    about.mkdir()
    about.joinpath("METADATA").write_text("Name: licorne-server\nVersion: 0.1.0\n", encoding="utf-8")
    groups = ("".join(f"{one} = {of}\n" for one, of in group.items()) for group in entries.values())
    sections = (f"[{name}]\n{group}" for name, group in zip(entries, groups, strict=True))
    about.joinpath("entry_points.txt").write_text("\n".join(sections), encoding="utf-8")


def run(copy: Path, *arguments: str) -> str:
    """The output of a Python program in the copy, which must succeed."""
    done = subprocess.run(
        [sys.executable, *arguments],
        env={**os.environ, "PYTHONPATH": str(copy)},
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.parametrize("names", [*((name,) for name in ROOMS), tuple(ROOMS)], ids=[*ROOMS, "all"])
def test_the_server_works_without_a_removable_part(names: tuple[str, ...], tmp_path: Path) -> None:
    """All other modules can be imported, and only the features of the part are missing."""
    copied(names, tmp_path)
    found: dict[str, Any] = json.loads(run(tmp_path, "-c", LOOKING).splitlines()[-1])
    assert found["from"].startswith(str(tmp_path))
    assert LABORATORY.isdisjoint(found["commands"]) == ("laboratory" in names)
    assert {"serve", "validate-config", "queues"} <= {*found["commands"]}
    if "loop" in names:
        assert found["transports"] == ["auto", "grpc", "grpc"]
    if "kubernetes" in names:
        assert found["store"] == "etcd://HOST:PORT,.../PREFIX was expected"
    else:
        assert found["store"] == "kubernetes"
    page = 404 if "page" in names else 200
    assert found["statuses"] == {"/livez": 200, "/metrics": 200, "/ws/v1/partitions": 200, "/ui": page}


def test_rms_are_served_without_all_removable_parts(tmp_path: Path) -> None:
    """Both protocols, and the probes, work without all removable parts."""
    copied(tuple(ROOMS), tmp_path)
    smoke = [f"tests/server/{name}" for name in SMOKE]
    run(tmp_path, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-n", "0", *smoke)
