"""Commands of a page, run with free ports. All waits are bounded."""

import asyncio
import json
import os
import queue
import shlex
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from functools import cache
from itertools import islice
from pathlib import Path
from typing import Self

import pytest

from licorne import Admin, Allocated, Client
from licorne_cli.commands import main, parser_for
from licorne_cli.config.plan import WORSE
from licorne_cli.config.reading import DIFFERENT
from licorne_cli.failures import NEEDS_LOOK
from licorne_server.lab.demo.planned import planned_worlds
from licorne_server.lab.demo.world import endless
from licorne_tools.bench.growth import measure
from licorne_tools.bench.scenarios import SCENARIOS
from support.coordination.etcd import EtcdServer
from support.docs.journal import write_journal
from support.docs.pages import ROOT, Block, Page
from support.docs.traces import with_trace
from support.patience import PATIENCE
from support.server.server_process import fork_licorne
from support.server.settings_file import settings_file

LICORNE = (sys.executable, "-m", "licorne_server")
QUIET = ("--log-level", "error")
ANYWHERE = ("--listen", "127.0.0.1:0", "--http", "127.0.0.1:0")
ASKING = (
    *("queues", "apps", "nodes", "users", "rms", "explain", "events", "usage", "topology"),
    *("log-level", "state-dump", "calendar"),
)
TINY_BENCH = ("--nodes", "5", "--pods", "50", "--runs", "1", "--seconds", "0.2")
"""Options that override those of the page, as the last one counts."""
TINY_GROWTH = ("--only", "gangs", "--runs", "1")
FEW_SCENARIOS = 2
MEMBER = "host-1:7070"
"""The member in the commands of pages."""
ALREADY_RUNNING = 20
"""The number of the first application's asks that run; the others wait."""


@dataclass(frozen=True, slots=True)
class Served:
    """The addresses of a server."""

    target: str
    http: str


def commands(block: Block) -> list[list[str]]:
    """The commands of a block as lists of words, without comments and empty lines."""
    lines = block.text.replace("\\\n", " ").splitlines()
    return [words for line in lines if (words := shlex.split(line, comments=True))]


@contextmanager
def serving(*options: str, cwd: Path = ROOT) -> Iterator[Served]:
    """`licorne serve` with these options on free ports; it must exit with 0 on SIGTERM."""
    command = ["serve", *options, *ANYWHERE, *QUIET]
    process, said = fork_licorne(command, folder=str(cwd))
    with said, os.fdopen(os.dup(said.fileno()), encoding="utf-8") as stdout:
        try:
            words = stdout.readline().split()
            assert words[:1] == ["listening"], f"{shlex.join(command)} does not start"
            places = dict(word.split("=", 1) for word in words[1:])
            yield Served(places["grpc"], places["http"])
        finally:
            process.terminate()
            process.join(PATIENCE)
        status = process.exitcode
        assert status == 0, f"{shlex.join(command)} ends with {status}"


async def play_first_application(target: str) -> None:
    """Create the state that `licorne fake-rm` has after a moment."""
    world = planned_worlds()[0]
    submitted = islice(endless(world), len(world.standing) + 1)
    async with Client(target, rm_id=world.rm_id, config=world.config) as client:
        await client.add_nodes(world.nodes)
        for submission in submitted:
            await client.submit_applications([submission.application])
            await client.ask(submission.asks)
        running = 0
        async for event in client.events():
            running += isinstance(event, Allocated)
            if running == ALREADY_RUNNING:
                return


async def register(target: str) -> None:
    """Register an RM with queues of its own, and disconnect it."""
    async with Client(target, rm_id="page", config=planned_worlds()[0].config) as client:
        await client.add_nodes(planned_worlds()[0].nodes)
        async for _ in client.events():
            return


async def joined(target: str) -> None:
    """Wait until a member has joined the others."""
    async with Admin(target) as admin:
        while not (await admin.members()).members:  # noqa: ASYNC110
            await asyncio.sleep(0.02)


class Shell:
    """The environment of a page's commands: a server with one RM, and a file of queues."""

    def __init__(self, served: Served, folder: Path) -> None:
        """Run commands in `folder`."""
        self._served = served
        self._folder = folder
        self._run: dict[str, Callable[[list[str]], None]] = {
            "serve": self._serve,
            "dev": self._parsed,
            "top": lambda words: self._ask([*words, "--once"]),
            "fake-rm": self._fake_rm,
            "replay": self._journal,
            "why": self._journal,
            "bench": self._bench,
            "budgets": self._budgets,
            "config": self._config,
            "members": self._members,
            "reload": self._reload,
            "simulate": lambda words: self._in_process(with_trace(words, self._folder)),
            "healthcheck": self._healthcheck,
            "status": self._status,
            **dict.fromkeys(("validate-config", "completion", "context", "settings"), self._in_process),
            **dict.fromkeys((*ASKING, "version"), self._ask),
        }

    def licorne(self, words: list[str]) -> None:
        """Run one command of `licorne`, which must succeed."""
        name = words[0]
        assert name in self._run, f"there is no way to try licorne {name}: mark it, or add one"
        self._run[name](words)

    def _serve(self, words: list[str]) -> None:
        """Run with an etcd of its own, if its options name one."""
        with ExitStack() as stack:
            for at, word in enumerate(words):
                if word.startswith("etcd://"):
                    etcd = stack.enter_context(EtcdServer())
                    words = [*words[:at], f"etcd://{etcd.target}/{word.rpartition('/')[2]}", *words[at + 1 :]]
            stack.enter_context(serving(*words[1:], cwd=self._folder))

    def _members(self, words: list[str]) -> None:
        """Run against a member with the name on the page, without confirmation."""
        with EtcdServer() as etcd:
            member = settings_file(coordination={"store": f"etcd://{etcd.target}", "name": MEMBER})
            with serving(*member, cwd=self._folder) as served:
                asyncio.run(asyncio.wait_for(joined(served.target), PATIENCE))
                sure = ["--yes"] if "drain" in words else []
                self._in_process([*words, *sure, "--target", served.target])

    def _ask(self, words: list[str]) -> None:
        if words[:2] == ["apps", "plan"]:
            self._submit(words)
            return
        self._in_process([*words, "--target", self._served.target])

    def _status(self, words: list[str]) -> None:
        """Accept findings, because the RM of the pages may be gone."""
        assert main([*words, "--target", self._served.target]) in (0, NEEDS_LOOK)

    def _healthcheck(self, words: list[str]) -> None:
        self._in_process([*words, "--url", f"http://{self._served.http}/livez"])

    def _config(self, words: list[str]) -> None:
        """Run with a server of its own, so that its changes do not affect the other commands."""
        with serving() as served:
            asyncio.run(asyncio.wait_for(register(served.target), PATIENCE))
            where = ["--target", served.target]
            if "plan" in words:
                self._plan([*words, *where])
                return
            if "diff" in words:
                assert main([*words, *where]) == DIFFERENT, "the file is not what the RM brought"
                return
            if "rollback" in words:
                self._in_process(["config", "apply", "queues.yaml", "--yes", *where])
            self._in_process([*words, *where])

    def _budgets(self, words: list[str]) -> None:
        """Run with a server of its own that has the budgets of their page."""
        example = next(block.text for block in Page("docs/budgets.md").blocks() if block.language == "yaml")
        (self._folder / "budgets.yaml").write_text(example, encoding="utf-8")
        with serving("--budgets", "budgets.yaml", cwd=self._folder) as served:
            self._in_process([*words, "--target", served.target])

    def _journal(self, words: list[str]) -> None:
        """Run with a journal of its own, and a configuration to compare with."""
        write_journal(self._folder)
        self._in_process(words)

    def _reload(self, words: list[str]) -> None:
        with serving("--config", "queues.yaml", cwd=self._folder) as served:
            self._in_process([*words, "--target", served.target])

    def _plan(self, words: list[str]) -> None:
        """Accept exit code 6: another configuration or an application may have victims."""
        assert main(words) in (0, WORSE), f"licorne {shlex.join(words)} fails"

    def _submit(self, words: list[str]) -> None:
        """Run with the example of the page in a file of that name."""
        page = Page("docs/plans.md")
        example = next(b.text for b in page.blocks() if b.text.startswith("application:"))
        file = next(word for word in words if word.endswith(".yaml"))
        (self._folder / file).write_text(example, encoding="utf-8")
        self._plan([*words, "--rm", planned_worlds()[0].rm_id, "--target", self._served.target])

    @staticmethod
    def _parsed(words: list[str]) -> None:
        """Only parse it, because it runs for minutes or until Ctrl-C, and has a test of its own."""
        parser_for(words[0]).parse_line(words)

    @staticmethod
    def _in_process(words: list[str]) -> None:
        assert main(words) == 0, f"licorne {shlex.join(words)} fails"

    def _bench(self, words: list[str]) -> None:
        """Run at a tiny size, and only the first scenarios, because each has a test of its own.

        With `--against` only one scenario is run, because it is run twice. Commands with all targets or with
        Kubernetes are only parsed, because they take minutes.
        """
        if "growth" in words:
            self._growth(words)
            return
        if "targets" in words or "kube" in words:
            self._parsed(words)
            return
        if "utilisation" in words:
            self._in_process([*words, "--minutes", "1"])
            return
        few = 1 if "--against" in words else FEW_SCENARIOS
        left_out = [word for word in words if word in SCENARIOS][few:]
        self._in_process([*(word for word in words if word not in left_out), *TINY_BENCH])

    def _growth(self, words: list[str]) -> None:
        """Run one dimension at its smallest size, without a report, which needs all dimensions."""
        at = words.index("--report") if "--report" in words else len(words)
        measured = measure.measured
        least = cache(lambda name: measured(name, 1))
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(measure, "measured", lambda name, size: replace(least(name), size=size))
            self._in_process([*words[:at], *words[at + 2 :], *TINY_GROWTH])

    def _fake_rm(self, words: list[str]) -> None:
        rm_id = f"page-{len(self._rms())}"  # a name that no RM of another page has
        # The world differs from that of `populate`, so that an application's name is unique.
        where = ("--target", self._served.target, "--rm-id", rm_id, "--world", "research")
        with subprocess.Popen([*LICORNE, *words, *where], stderr=subprocess.DEVNULL) as process:
            try:
                deadline = time.monotonic() + PATIENCE
                while rm_id not in self._rms():
                    assert process.poll() is None, "the fake RM ended by itself"
                    assert time.monotonic() < deadline, "the fake RM does not register"
            finally:
                process.send_signal(signal.SIGTERM)
                status = process.wait(PATIENCE)
        assert status == 0, f"licorne {shlex.join(words)} ends with {status}"

    def _rms(self) -> set[str]:
        url = f"http://{self._served.http}/ws/v1/clusters"
        with urllib.request.urlopen(url, timeout=PATIENCE) as answer:
            clusters = json.load(answer)
        infos = [info for cluster in clusters for info in cluster["rmBuildInformation"]]
        return {info.get("rmId", "") for info in infos}


def populate(served: Served) -> None:
    """Register an RM with contents to display."""
    asyncio.run(asyncio.wait_for(play_first_application(served.target), PATIENCE))


class Program:
    """A program of a page, as a context manager that ends it."""

    def __init__(
        self, command: Sequence[str], cwd: Path, environment: Mapping[str, str] | None = None
    ) -> None:
        """Start it."""
        self._command = command
        self._process = subprocess.Popen(
            command,
            cwd=cwd,
            env={**os.environ, **(environment or {})},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        self._lines: queue.Queue[str | None] = queue.Queue()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def __enter__(self) -> Self:
        """Return the program, which is already running."""
        return self

    def __exit__(self, *_: object) -> None:
        """End it, if it still runs."""
        if self._process.poll() is None:
            self._process.kill()
        self._process.wait()
        self._reader.join()
        for pipe in (self._process.stdin, self._process.stdout):
            assert pipe is not None
            pipe.close()

    def line(self) -> str:
        """The next line that it prints."""
        try:
            line = self._lines.get(timeout=PATIENCE)
        except queue.Empty:
            raise AssertionError(f"{self._command} prints nothing") from None
        assert line is not None, f"{self._command} has ended"
        return line

    def type(self, line: str) -> None:
        """Type a line into it."""
        assert self._process.stdin is not None
        self._process.stdin.write(f"{line}\n")
        self._process.stdin.flush()

    def send(self, number: signal.Signals) -> None:
        """Send it a signal."""
        self._process.send_signal(number)

    def ended(self, by: signal.Signals | None = None) -> int:
        """The exit code, once it has ended; the signal `by` is sent first, if given."""
        if by is not None:
            self.send(by)
        return self._process.wait(PATIENCE)

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self._lines.put(line.rstrip("\n"))
        self._lines.put(None)


def free_port() -> int:
    """A port of loopback that is free at present."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
