"""The page on upgrading, compared with a restart."""

import asyncio
import io
import json
import signal
import sqlite3
import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing, redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any

import pytest

from licorne import Allocated, Application, Ask, Client, Node, Reconnected
from licorne_cli.commands import main
from licorne_server.store.documents.disk import FORMAT, Disk
from support.docs.commands import LICORNE, QUIET, Program, free_port
from support.patience import PATIENCE

QUEUES = """
partitions:
  - name: default
    queues:
      - name: root
        submitacl: "*"
        queues:
          - name: batch
            resources: {max: {vcore: %s}}
          - name: other
"""


class Site:
    """A server with one port and one state directory, which may be restarted."""

    def __init__(self, folder: Path) -> None:
        """Start without a server."""
        self.target = f"127.0.0.1:{free_port()}"
        self.folder = folder
        self.config = folder / "applied.yaml"
        self.config.write_text(QUEUES % 2, encoding="utf-8")

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """A running server; clients of this process disconnect before it stops."""
        options = ("--listen", self.target, "--http", "off", "--state-dir", "state", *QUIET)
        with Program((*LICORNE, "serve", *options), self.folder) as program:
            assert (await asyncio.to_thread(program.line)).startswith("listening")
            yield
            assert await asyncio.to_thread(program.ended, signal.SIGTERM) == 0

    def asked(self, *words: str) -> Any:
        """The JSON of a command."""
        output = io.StringIO()
        with redirect_stdout(output), redirect_stderr(io.StringIO()):
            assert main([*words, "--target", self.target, "-o", "json"]) == 0
        return json.loads(output.getvalue())

    def done(self, *words: str) -> None:
        """Run a command that changes state."""
        with redirect_stdout(io.StringIO()), redirect_stderr(io.StringIO()):
            assert main([*words, "--target", self.target]) == 0


async def heard(rm: Client, kind: type, number: int) -> None:
    """Read events until this number of a kind has arrived."""
    async for event in rm.events():
        number -= isinstance(event, kind)
        if number == 0:
            return


async def story(site: Site) -> tuple[dict[str, Any], dict[str, Any]]:
    """The reports of the server before and after a restart, with a connected RM."""
    async with Client(site.target, rm_id="rm", config=QUEUES % 4) as rm:
        async with site.running():
            await rm.add_nodes([Node(node_id="n1", capacity={"vcore": 8000})])
            await rm.submit_applications([Application(application_id="app", queue="root.batch", user="ann")])
            await rm.ask(Ask(key=f"k{n}", application_id="app", resources={"vcore": 1000}) for n in range(5))
            await heard(rm, Allocated, 4)
            for words in (
                ("config", "apply", str(site.config), "--yes"),
                ("nodes", "cordon", "n1"),
                ("queues", "stop", "root.other", "--yes"),
                ("log-level", "core.engine", "debug"),
            ):
                await asyncio.to_thread(site.done, *words)
            before = await asyncio.to_thread(look, site)
        async with site.running():
            await heard(rm, Reconnected, 1)
            return before, await asyncio.to_thread(look, site)


def look(site: Site) -> dict[str, Any]:
    """The state that is described on the page."""
    application = site.asked("apps", "app")
    running = [(one["allocationKey"], one["nodeId"]) for one in application["allocations"]]
    [ask] = application["asks"]
    return {
        "runs": sorted(running),
        "waits": (ask["allocationKey"], ask["requestTime"]),
        "configurations": site.asked("config", "history")["revisions"],
        "node": site.asked("nodes", "n1")["nodes"][0]["drained"],
        "queue": site.asked("queues", "root.other")["queues"][0]["state"],
        "levels": set(site.asked("log-level")["levels"]),
    }


@pytest.mark.slow
def test_the_documented_state_survives_a_stop(tmp_path: Path) -> None:
    """Allocations, asks, applied configurations, cordons, stops and log levels survive a restart."""
    before, after = asyncio.run(asyncio.wait_for(story(Site(tmp_path)), PATIENCE))
    assert len(before["runs"]) == 4
    assert [one["source"] for one in before["configurations"]] == ["operator", "registration"]
    for what in ("runs", "waits", "configurations"):
        assert after[what] == before[what], what
    assert (before["node"], after["node"]) == (True, True)
    assert (before["queue"], after["queue"]) == ("Stopped", "Stopped")
    assert before["levels"] == after["levels"] >= {"core.engine"}


@pytest.mark.slow
def test_a_newer_state_directory_is_refused(tmp_path: Path) -> None:
    """A server refuses a state directory of a newer format, and names the file."""
    disk = Disk(tmp_path / "state")
    disk.open()
    disk.close()
    with closing(sqlite3.connect(tmp_path / "state" / "state.sqlite")) as database:
        database.execute(f"PRAGMA user_version = {FORMAT + 1}")
    command = [
        *LICORNE,
        "serve",
        "--listen",
        "127.0.0.1:0",
        "--http",
        "off",
        "--state-dir",
        "state",
    ]
    done = subprocess.run(
        command, cwd=tmp_path, capture_output=True, text=True, check=False, timeout=PATIENCE
    )
    assert done.returncode == 1
    assert str(Path("state", "state.sqlite")) in done.stderr
    assert "another version" in done.stderr
