"""The page on TLS: its commands, in order, make working files, servers and clients."""

import ast
import asyncio
import inspect
import re
import shlex
import signal
import subprocess
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from licorne_cli.commands import main
from support.docs.commands import ANYWHERE, LICORNE, QUIET, Program, commands
from support.docs.pages import Block, Page
from support.patience import PATIENCE

pytestmark = pytest.mark.needs("openssl")

PAGE = Page("docs/tls.md")
RELOADED_WITHIN = 60.0
"""Seconds in which a server has to read its files after a signal."""


class Teller:
    """Runs the blocks of the page in one folder, with commands against the server started last."""

    def __init__(self, folder: Path, open_until_the_end: ExitStack) -> None:
        """Start without processes."""
        self._folder = folder
        self._ended = open_until_the_end
        self._server: Program | None = None
        self._ports: dict[str, str] = {}
        self._signalled = False
        self._names: dict[str, Any] = {"__name__": "page"}

    @property
    def port(self) -> str:
        """Port of the server for gRPC."""
        return self._ports["7070"]

    def tell(self, block: Block) -> None:
        """Run one block."""
        if block.language == "toml":
            (self._folder / "licorne.toml").write_text(block.text, encoding="utf-8")
            return
        if block.language == "python":
            asyncio.run(asyncio.wait_for(self._python(block), PATIENCE))
            return
        for line, words in zip(block.text.splitlines(), commands(block), strict=True):
            match words:
                case ["licorne", "serve", *rest]:
                    self._serve(rest)
                case ["licorne", *rest]:
                    self._ask(rest)
                case ["kill", "-HUP", _]:
                    assert self._server is not None
                    self._server.send(signal.SIGHUP)
                    self._signalled = True
                case ["openssl" | "mv" | "cat", *_]:
                    subprocess.run(
                        ["bash", "-c", line],
                        cwd=self._folder,
                        check=True,
                        capture_output=True,
                        timeout=PATIENCE,
                    )
                case _:
                    pytest.fail(f"nobody knows how to try {shlex.join(words)}")

    def _serve(self, options: list[str]) -> None:
        if self._server is not None:
            assert self._server.ended(signal.SIGTERM) == 0
        command = (*LICORNE, "serve", *options, *ANYWHERE, *QUIET)
        self._server = self._ended.enter_context(Program(command, self._folder))
        words = self._server.line().split()
        grpc, http = (word.rpartition(":")[2] for word in words[1:3])
        self._ports = {"7070": grpc, "9080": http}

    def _here(self, text: str) -> str:
        """The block with the ports of the running server."""
        return re.sub(r"localhost:(\d+)", lambda found: f"localhost:{self._ports[found[1]]}", text)

    def _ask(self, words: list[str]) -> None:
        """Repeat a command until the server has read its files after a signal."""
        until = time.monotonic() + (RELOADED_WITHIN if self._signalled else 0.0)
        asked = [self._here(word) for word in words]
        while (status := main(asked)) != 0:
            assert time.monotonic() < until, f"licorne {shlex.join(words)} ends with {status}"
        self._signalled = False

    async def _python(self, block: Block) -> None:
        flags = ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
        code = compile(self._here(block.text), block.page, "exec", flags, dont_inherit=True)
        result = eval(code, self._names)
        if inspect.isawaitable(result):
            await result


def test_the_steps_of_the_page_work(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Every step succeeds: authority, certificates, servers, clients, tokens, renewal.

    The server refuses an RM the list of all RMs, and a stranger everything.
    """
    monkeypatch.setenv("LICORNE_CONTEXTS", str(tmp_path / "contexts.yaml"))
    monkeypatch.chdir(tmp_path)
    blocks = PAGE.blocks()
    serve = next(block for block in blocks if "licorne serve" in block.text)
    with ExitStack() as stack:
        teller = Teller(tmp_path, stack)
        for block in blocks:
            teller.tell(block)
            if block is serve:
                as_rm = ("--tls-ca", "ca.pem", "--tls-cert", "rm1.pem", "--tls-key", "rm1.key")
                target = ("--target", f"localhost:{teller.port}")
                assert main(["state-dump", *target, *as_rm]) == 4
                assert main(["rms", *target, "--tls-ca", "ca.pem"]) == 2
    assert "rm1" in capsys.readouterr().out
