"""Options, markers, random worlds, and the table of acceptance rows, for all tests."""

import gc
import os
import signal
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from pathlib import Path

import hypothesis
import pytest
import pytest_asyncio
import structlog

import acceptance
import costs
import programs
from licorne_cli.connection.contexts import PATH_VARIABLE
from licorne_server.process.build_info import COMPILED, build_info
from licorne_server.telemetry.logs import levels
from licorne_tools.kube.plane import Plane
from support import seeds
from support.kube.cluster import Cluster, running_cluster
from support.patience import PATIENCE
from support.surroundings import guard_default_addresses, is_meant_for_others

FIRST_WORLDS, WORLDS = 40, 80
"""Random worlds that `make test` tries each property on, and all that it is tried on; --worlds N tries N."""

WORKERS = "PYTEST_XDIST_AUTO_NUM_WORKERS"

MOST_FOR_ONE = 2
"""Lines of the costs of a single folder, which are not worth showing."""

# A deadline, and the check for slow data, would depend on the load of the machine.
hypothesis.settings.register_profile(
    "licorne", deadline=None, suppress_health_check=[hypothesis.HealthCheck.too_slow]
)
# The reader of a failure in CI has neither the database of examples nor the random numbers.
hypothesis.settings.register_profile(
    "licorne-ci",
    hypothesis.settings.get_profile("licorne"),
    derandomize=True,
    database=None,
    print_blob=True,
)
hypothesis.settings.load_profile("licorne-ci" if os.environ.get("CI") else "licorne")


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options of this suite."""
    group = parser.getgroup("licorne")
    group.addoption(
        "--worlds", type=seeds.positive, help=f"random worlds for the main property (usually {WORLDS})"
    )
    group.addoption("--rewrite", action="store_true", help="write what scenarios print into their files")
    group.addoption("--rows-table", metavar="FILE", help="write a table of acceptance rows and their tests")


def pytest_xdist_auto_num_workers() -> int | None:
    """Two processes more than processors, because tests of servers and members mostly wait.

    None if xdist's own variable has the number.
    """
    return None if os.environ.get(WORKERS) else len(os.sched_getaffinity(0)) + 2


def pytest_configure(config: pytest.Config) -> None:
    """Register the measurements and reports, and the table of rows if requested."""
    config.pluginmanager.register(costs.Meter())
    config.pluginmanager.register(programs.Told(config))
    path = config.getoption("--rows-table")
    if path:
        config.pluginmanager.register(acceptance.RowTable(config, Path(path)))


def pytest_collectstart() -> None:
    """Disable the garbage collector during collection, in which almost nothing becomes garbage."""
    gc.disable()


def pytest_collection_finish() -> None:
    """Freeze the collected tests, thousands of objects that exist to the end, for the garbage collector."""
    gc.collect()
    gc.freeze()
    gc.enable()


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Record the rows with tests, before tests are deselected by name, mark or missing programs."""
    acceptance.note_rows(config, items)
    programs.leave_out(config, items)
    if build_info().form == COMPILED:
        # Compiled code ignores replaced functions, and its lines cannot be counted.
        of_pure = [item for item in items if item.get_closest_marker("pure")]
        config.hook.pytest_deselected(items=of_pure)
        items[:] = [item for item in items if item not in of_pure]


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print the costs of folders, and the tests above the budget, also with `-n`."""
    reports = [
        report
        for found in terminalreporter.stats.values()
        for report in found
        if isinstance(report, pytest.TestReport)
    ]
    lines = list(costs.table(reports))
    if len(lines) > MOST_FOR_ONE:
        terminalreporter.section("costs per folder")
        terminalreporter.write_line("\n".join([*lines, *costs.above_budget(reports)]))


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Pass a property its random worlds, in parts."""
    mark = metafunc.definition.get_closest_marker("worlds")
    if mark:
        wanted: int | None = metafunc.config.getoption("--worlds")
        parts = seeds.parts(wanted or FIRST_WORLDS, **mark.kwargs)
        further = [] if wanted else seeds.parts(WORLDS, FIRST_WORLDS, **mark.kwargs)
        slow = [pytest.param(part, marks=pytest.mark.slow) for part in further]
        metafunc.parametrize("part", [*parts, *slow], ids=seeds.shown)


@pytest.fixture
def collector_off() -> Iterator[None]:
    """Disable the garbage collector, as in the server: objects are freed by reference counts.

    Existing objects are frozen, so that only those of the test count.
    """
    gc.collect()
    gc.freeze()
    gc.disable()
    yield
    gc.enable()


@pytest.fixture
def usual_levels() -> Iterator[None]:
    """Restore the log levels of the process before and after the test."""
    levels().begin("info")
    yield
    levels().begin("info")


@pytest.fixture
def rewrite(request: pytest.FixtureRequest) -> bool:
    """True if expected output is to be written instead of compared."""
    wanted: bool = request.config.getoption("--rewrite")
    return wanted


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def cluster(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Cluster]:
    """A Kubernetes cluster with four nodes for all tests of a process, each with its own namespaces."""
    async with running_cluster(tmp_path_factory.mktemp("kube")) as running:
        yield running


@pytest.fixture(scope="session")
def plane(cluster: Cluster) -> Plane:
    """The control plane of the cluster."""
    return cluster.plane


@pytest.fixture(scope="session", autouse=True)
def _same_surroundings(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Give tests and their processes the same environment, whoever has started pytest."""
    with pytest.MonkeyPatch.context() as patch, _heard(signal.SIGINT), _heard(signal.SIGTERM):
        for name in filter(is_meant_for_others, list(os.environ)):
            patch.delenv(name)
        guard_default_addresses(patch)
        patch.setenv("TERM", "xterm")
        for kit in ("fake_rm", "parts", "serving"):
            patch.setattr(f"licorne_server.testing.{kit}.PATIENCE", PATIENCE)
        # Servers in the test process log to the same stderr as a command, so only the command's lines count.
        structlog.configure(logger_factory=structlog.PrintLoggerFactory(sys.__stderr__))
        patch.setenv(PATH_VARIABLE, str(tmp_path_factory.mktemp("home") / "contexts.yaml"))
        yield


@contextmanager
def _heard(number: signal.Signals) -> Iterator[None]:
    """Let processes that are started here receive a signal, even if this one ignores it.

    Under nohup or in the background of a script, signals are ignored. Started processes inherit that, but no
    handlers. So a handler without an effect replaces it.
    """
    if signal.getsignal(number) is not signal.SIG_IGN:
        yield
        return
    signal.signal(number, lambda *_: None)
    yield
    signal.signal(number, signal.SIG_IGN)
