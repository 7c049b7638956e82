"""Play the examples against a real server: `python check.py [--wire WIRE] NAME COMMAND...`.

The command is run over `si.v1` and over a session: straight, with a restart of the server in the middle, and
against a server that rejects most of its asks. The example must complete all its work, and leave nothing on
the server. A rejection must end it.
"""

import argparse
import os
import queue
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager

import grpc

from licorne.v1.state_pb2 import ListPartitionsRequest
from licorne.v1.state_pb2_grpc import StateStub

PATIENCE = 60.0
COUNT = 1000
WIRES = ("si", "session")
SERVE = (sys.executable, "-m", "licorne_server", "serve", "--log-level", "error", "--http", "off")
STRAIGHT = ["registered", f"{COUNT} allocations", f"{COUNT} releases"]
RESTARTED = [*STRAIGHT[:2], "registered", f"replayed {COUNT} allocations", STRAIGHT[2]]


class Failed(Exception):
    """An example failed."""


@contextmanager
def serving(address: str = "127.0.0.1:0", **variables: str) -> Iterator[str]:
    """Run a server with these environment variables; yield its address."""
    environ = {**os.environ, **variables}
    with subprocess.Popen(
        [*SERVE, "--listen", address], env=environ, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        try:
            yield dict(word.split("=") for word in process.stdout.readline().split()[1:])["grpc"]
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait(PATIENCE)


@contextmanager
def playing(command: Sequence[str], target: str, *how: str) -> Iterator["Example"]:
    """Run an example, and end it in any case. If it fails, its error output is printed."""
    with (
        tempfile.TemporaryFile("w+") as said,
        subprocess.Popen([*command, target, *how], stdout=subprocess.PIPE, stderr=said, text=True) as process,
    ):
        try:
            yield Example(process)
        except BaseException:
            said.seek(0)
            sys.stderr.write(said.read())
            raise
        finally:
            process.kill()


class Example:
    """The output of an example, line by line, and its exit status."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        """Start to read the output."""
        self._process = process
        self._lines: queue.Queue[str] = queue.Queue()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def expect(self, lines: Sequence[str]) -> None:
        """Wait until the example has printed these lines.

        Raises:
            Failed: it printed something else, or nothing for a minute.
        """
        for wanted in lines:
            try:
                line = self._lines.get(timeout=PATIENCE)
            except queue.Empty:
                raise Failed(f"{wanted!r} was expected, and nothing came") from None
            if line != wanted:
                raise Failed(f"{wanted!r} was expected, and {line!r} came")

    def ends(self) -> None:
        """Wait until the example has ended successfully; raises Failed."""
        if self._process.wait(PATIENCE) != 0:
            raise Failed(f"exit code {self._process.returncode}")

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self._lines.put(line.rstrip())
        self._lines.put("(its end)")


def check_left(target: str) -> None:
    """Check that the server has no allocation left; raises Failed."""
    with grpc.insecure_channel(target) as channel:
        answer = StateStub(channel).ListPartitions(ListPartitionsRequest(), timeout=PATIENCE)
    left = sum(partition.allocations + partition.pending_asks for partition in answer.partitions)
    if left:
        raise Failed(f"{left} asks and allocations are left")


def play_straight(command: Sequence[str], wire: str) -> None:
    """Play the whole example with one server; raises Failed."""
    with serving() as target:
        with playing(command, target, wire) as example:
            example.expect(STRAIGHT)
            example.ends()
        check_left(target)


def play_restarted(command: Sequence[str], wire: str) -> None:
    """Stop the server in the middle, and start another in its place; raises Failed."""
    with ExitStack() as stack:
        with serving() as target:
            example = stack.enter_context(playing(command, target, wire, "restart"))
            example.expect(RESTARTED[:2])
        with serving(target):
            example.expect(RESTARTED[2:])
            example.ends()
            check_left(target)


def play_rejected(command: Sequence[str], wire: str) -> None:
    """Run a server whose maximum is ten asks; raises Failed if the example ignores rejections."""
    with serving(LICORNE_BOUNDS_MAX_ASKS="10") as target:
        try:
            done = subprocess.run(
                [*command, target, wire], capture_output=True, timeout=PATIENCE, check=False
            )
        except subprocess.TimeoutExpired:
            raise Failed("asks were rejected, and it goes on") from None
    if not done.returncode or b"rejected" not in done.stderr:
        raise Failed(f"exit code {done.returncode} although asks were rejected")


def main() -> int:
    """Play one example; 1 if it fails."""
    parser = argparse.ArgumentParser(description="Play an example against a real server.")
    parser.add_argument("--wire", action="append", choices=WIRES, help="only over this one (default: both)")
    parser.add_argument("name")
    parser.add_argument("command", nargs=argparse.REMAINDER)
    options = parser.parse_args()
    for wire in options.wire or WIRES:
        try:
            play_straight(options.command, wire)
            play_restarted(options.command, wire)
            play_rejected(options.command, wire)
        except Failed as failure:
            print(f"{options.name} over {wire}: {failure}", file=sys.stderr)
            return 1
        print(f"{options.name} over {wire}: {COUNT} allocations, replayed after a restart")
    return 0


if __name__ == "__main__":
    sys.exit(main())
