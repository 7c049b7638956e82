"""The benchmark of Kubernetes' shim, in turn with this server and with the core in the shim's process.

It is a test of the Go module `clients/go/shimtest`, which depends on the shim and on that core. A run is
a process of its own, and so is its server.
"""

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from licorne_tools.bench.driver import BenchError
from licorne_tools.bench.report import Run, Side

MODULE = Path(__file__).parents[3] / "clients/go/shimtest"
LICORNE = "LICORNE_BIN"
"""The variable by which the benchmark is told the `licorne` command."""
CORES = {Side.THIS: "licorne", Side.OTHER: "in-process"}
"""The names of both sides in the benchmark."""
BUILD_SECONDS = 1800.0
RUN_SECONDS = 600.0
SHOWN_LINES = 15

UNITS = {
    "pods/s": "pods_per_second",
    "s/all": "seconds",
    "shim-µs/pod": "shim_cpu_us_per_pod",
    "server-µs/pod": "server_cpu_us_per_pod",
}
"""The measures by their units in the benchmark. The process of the shim has the in-process core too."""
CPU = "cpu_us_per_pod"
"""The CPU of all processes."""


@dataclass(frozen=True, slots=True)
class Shape:
    """So many pods on so many nodes: one of the sizes that the benchmark has."""

    pods: int
    nodes: int

    def __str__(self) -> str:
        """``5,000 pods on 50 nodes``."""
        return f"{self.pods:,} pods on {self.nodes:,} nodes"


SHAPES = (Shape(5_000, 50), Shape(50_000, 5_000))


def go() -> str | None:
    """The Go command, if it is installed."""
    return shutil.which("go")


@contextmanager
def built(command: str) -> Iterator[Path]:
    """The benchmark as a program, built by the Go command, for the time of the block.

    Raises:
        BenchError: it cannot be built.
    """
    with TemporaryDirectory() as folder:
        program = Path(folder) / "shimtest"
        output([command, "test", "-c", "-vet=off", "-o", str(program), "."], BUILD_SECONDS)
        yield program


def bound(program: Path, shape: Shape, side: Side) -> Run:
    """Have all pods bound once; returns the measures by name.

    Raises:
        BenchError: the benchmark has failed, or reports no figures.
    """
    parts = ("BenchmarkPods", f"{shape.pods}pods", f"{shape.nodes}nodes", CORES[side])
    pattern = "/".join(f"^{part}$" for part in parts)
    text = output([str(program), "-test.run=^$", f"-test.bench={pattern}", "-test.benchtime=1x"], RUN_SECONDS)
    found = figures(text)
    if UNITS.keys() - found.keys() > {"server-µs/pod"}:
        raise BenchError(f"the benchmark of the shim has no figures:\n{last_lines(text)}")
    run = {name: found.get(unit, 0.0) for unit, name in UNITS.items()}
    return {**run, CPU: run["shim_cpu_us_per_pod"] + run["server_cpu_us_per_pod"]}


def figures(text: str) -> Mapping[str, float]:
    """The figures of a benchmark's line by their units; empty without such a line."""
    for line in text.splitlines():
        name, *words = line.split() or [""]
        if name.startswith("BenchmarkPods/"):
            # Behind the name is the number of rounds.
            return {unit: float(value) for value, unit in zip(words[1::2], words[2::2], strict=True)}
    return {}


def output(command: Sequence[str], seconds: float) -> str:
    """What a program prints in the folder of the module.

    Raises:
        BenchError: it fails, or does not end in time; with its last lines.
    """
    process = subprocess.Popen(
        command,
        cwd=MODULE,
        env={**os.environ, LICORNE: str(Path(sys.executable).with_name("licorne"))},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        # With a group of its own, so that its server ends with it.
        process_group=0,
    )
    try:
        text, _ = process.communicate(timeout=seconds)
    except subprocess.TimeoutExpired:
        raise BenchError(f"{command[0]} did not end in {seconds:.0f} s") from None
    finally:
        if process.returncode is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.communicate()
    if process.returncode != 0:
        raise BenchError(f"{command[0]} failed:\n{last_lines(text)}")
    return text


def last_lines(text: str) -> str:
    """The end of a text."""
    return "\n".join(text.splitlines()[-SHOWN_LINES:])
