"""The tutorial: its program is short and runs, and all output is that of the page."""

import shlex
import signal
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path

import pytest

from support.docs.commands import LICORNE, QUIET, Program, commands, free_port
from support.docs.pages import ROOT, Block, Page
from support.patience import PATIENCE

PAGE = Page("docs/tutorial.md")
PROGRAM = ROOT / "docs" / "tutorial_rm.py"
MOST_LINES = 50
USUAL_PORT = "7070"


class Terminals:
    """The reader's terminals, for the server, the RM, and commands."""

    def __init__(self, open_until_the_end: ExitStack) -> None:
        """Start without processes; the port is the same for every server, as on the page."""
        self._port = str(free_port())
        self._ended = open_until_the_end
        self._server: Program | None = None
        self.rm: Program | None = None
        self.printed: list[str] = []

    def run(self, words: list[str]) -> None:
        """Run one command of the page; `printed` receives its output."""
        self.printed = []
        match words:
            case ["pip", "install", *_] | ["python3", "-m", "venv", ".venv"] | [".", _]:
                pass
            case ["licorne", "serve"]:
                self._serve()
            case ["python", program]:
                command = (sys.executable, str(ROOT / program), f"127.0.0.1:{self._port}")
                self.rm = self._ended.enter_context(Program(command, ROOT))
            case ["licorne", *rest]:
                self.printed = self.asked(*rest)
            case _:
                pytest.fail(f"nobody knows how to try {shlex.join(words)}")

    def asked(self, *words: str) -> list[str]:
        """Output of a command that reads from the server."""
        command = (*LICORNE, *words, "--target", f"127.0.0.1:{self._port}")
        done = subprocess.run(
            command,
            capture_output=True,
            text=True,
            check=True,
            timeout=PATIENCE,
            stdin=subprocess.DEVNULL,
        )
        return [line.rstrip() for line in done.stdout.splitlines()]

    def _serve(self) -> None:
        if self._server is not None:
            assert self._server.ended(signal.SIGINT) == 0
        where = ("--listen", f"127.0.0.1:{self._port}", "--http", "127.0.0.1:0")
        self._server = self._ended.enter_context(Program((*LICORNE, "serve", *where, *QUIET), ROOT))
        ready = self._server.line().split()
        assert ready[1] == f"grpc=127.0.0.1:{self._port}"
        self.printed = [f"{ready[0]} grpc=127.0.0.1:{USUAL_PORT} http=127.0.0.1:9080"]

    def check(self, block: Block) -> None:
        """Check that the lines of a block are printed by the last command, or else by the RM."""
        lines = [line.rstrip() for line in block.text.splitlines()]
        if lines[0].startswith("listening"):
            assert self.printed == lines, str(block)
        elif self.printed and not self.printed[0].startswith("listening"):
            assert self.printed == lines, str(block)
            self.printed = []
        else:
            assert self.rm is not None
            if lines[0] == "first":
                self.rm.type(lines.pop(0))
            assert [self.rm.line() for _ in lines] == lines, str(block)


def test_the_program_is_short() -> None:
    """The page shows the whole program, of at most fifty lines."""
    [block] = [block for block in PAGE.blocks() if block.language == "python"]
    assert block.text == PROGRAM.read_text(encoding="utf-8").rstrip()
    assert sum(bool(line.strip()) for line in block.text.splitlines()) <= MOST_LINES


@pytest.mark.slow
def test_the_tutorial_prints_the_texts_of_the_page(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Played block by block, server, RM and commands print the texts of the page."""
    monkeypatch.setenv("LICORNE_CONTEXTS", str(tmp_path / "none.yaml"))
    with ExitStack() as stack:
        terminals = Terminals(stack)
        for block in PAGE.blocks():
            if block.language == "sh":
                for words in commands(block):
                    terminals.run(words)
            elif block.language == "text":
                terminals.check(block)
        assert terminals.rm is not None
        terminals.rm.type("")
        assert terminals.rm.ended() == 0
        assert terminals.asked("rms", "-o", "name") == []
