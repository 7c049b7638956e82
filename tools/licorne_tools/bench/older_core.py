"""Benchmarks that compare the older core with this server: of Kubernetes' shim, and of asks over gRPC.

They are tests of the Go module `clients/go/shimtest`, which depends on the older core. Each run is a process,
and its server another one.
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
from licorne_tools.bench.scenarios import SCENARIOS

MODULE = Path(__file__).parents[3] / "clients/go/shimtest"
LICORNE = "LICORNE_BIN"
"""Environment variable with the path of the `licorne` command, for the benchmark."""
BUILD_SECONDS = 1800.0
RUN_SECONDS = 600.0
BENCHMARKS = ("test", "-c", "-vet=off")
"""Arguments of `go` that build the benchmarks."""
SHOWN_LINES = 15


@dataclass(frozen=True, slots=True, eq=False)
class Benchmark:
    """A benchmark of the module: its name, and its names for the two cores.

    `measures` has the name of each measure by its unit in the benchmark's output, the rate first.
    """

    name: str
    scenario: str
    cores: Mapping[Side, str]
    measures: Mapping[str, str]

    @property
    def rate(self) -> tuple[str, str]:
        """Unit and name of the rate."""
        return next(iter(self.measures.items()))


@dataclass(frozen=True, slots=True)
class Shape:
    """A size of a benchmark: numbers of pods or asks, and of nodes; `path` names its sub-benchmark."""

    benchmark: Benchmark
    path: str
    title: str
    pods: int
    nodes: int


ASKS = Benchmark(
    "BenchmarkAsks",
    "grpc",
    {Side.THIS: "licorne", Side.OTHER: "older"},
    {
        "asks/s": "allocations_per_second",
        "client-µs/ask": "client_cpu_us_per_allocation",
        "server-µs/ask": "cpu_us_per_allocation",
    },
)
PODS = Benchmark(
    "BenchmarkPods",
    "kubernetes",
    {Side.THIS: "licorne", Side.OTHER: "in-process"},
    {
        "pods/s": "pods_per_second",
        "s/all": "seconds",
        "µs/pod": "cpu_us_per_pod",
        "shim-µs/pod": "shim_cpu_us_per_pod",
        "server-µs/pod": "server_cpu_us_per_pod",
    },
)
"""The benchmark of pods. The older core runs in the process of its shim."""
ASK_SCENARIOS = [SCENARIOS[name] for name in ("core1", "shim", "onebigapp", "manyapps", "tenants")]
POD_SIZES = ((5_000, 50), (50_000, 5_000))
"""Pairs of the number of pods and the number of nodes."""
SHAPES = (
    *(Shape(ASKS, each.name, each.name, each.pods, each.nodes) for each in ASK_SCENARIOS),
    *(
        Shape(PODS, f"{pods}pods/{nodes}nodes", f"{pods:,} pods on {nodes:,} nodes", pods, nodes)
        for pods, nodes in POD_SIZES
    ),
)


def go() -> str | None:
    """The Go command; None if it is not installed."""
    return shutil.which("go")


@contextmanager
def built(command: str, *how: str, module: Path = MODULE, package: str = ".") -> Iterator[Path]:
    """Build a program of a Go module for the duration of the block, with `go COMMAND HOW... PACKAGE`.

    Raises:
        BenchError: the program cannot be built.
    """
    with TemporaryDirectory() as folder:
        program = Path(folder) / "program"
        output([command, *how, "-o", str(program), package], BUILD_SECONDS, module)
        yield program


def benchmarked(program: Path, shape: Shape, side: Side) -> Run:
    """Let a core place all pods or asks once; returns the measures by name.

    Raises:
        BenchError: the benchmark has failed, or reports no figures.
    """
    benchmark = shape.benchmark
    parts = (benchmark.name, *shape.path.split("/"), benchmark.cores[side])
    pattern = "/".join(f"^{part}$" for part in parts)
    text = output([str(program), "-test.run=^$", f"-test.bench={pattern}", "-test.benchtime=1x"], RUN_SECONDS)
    found = figures(text)
    if benchmark.measures.keys() - found.keys():
        raise BenchError(f"{benchmark.name} has no figures:\n{last_lines(text)}")
    return {measure: found[unit] for unit, measure in benchmark.measures.items()}


def figures(text: str) -> Mapping[str, float]:
    """The figures of a benchmark's line by their units; empty if there is no such line."""
    for line in text.splitlines():
        name, *words = line.split() or [""]
        if name.startswith("Benchmark"):
            # The second word of the line is the number of rounds.
            return {unit: float(value) for value, unit in zip(words[1::2], words[2::2], strict=True)}
    return {}


def output(command: Sequence[str], seconds: float, module: Path = MODULE) -> str:
    """Run a program in the folder of a module; returns its output.

    Raises:
        BenchError: the program fails, or does not end in time; the text has its last lines.
    """
    process = subprocess.Popen(
        command,
        cwd=module,
        env={**os.environ, LICORNE: str(Path(sys.executable).with_name("licorne"))},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        # Its own process group makes it possible to end its server too.
        process_group=0,
    )
    try:
        text, _ = process.communicate(timeout=seconds)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        text, _ = process.communicate()
        raise BenchError(f"{command[0]} did not end in {seconds:.0f} s:\n{last_lines(text)}") from None
    finally:
        if process.returncode is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.communicate()
    if process.returncode != 0:
        raise BenchError(f"{command[0]} failed:\n{last_lines(text)}")
    return text


def last_lines(text: str) -> str:
    """The last lines of a text, for an error message."""
    return "\n".join(text.splitlines()[-SHOWN_LINES:])
