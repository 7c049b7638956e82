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

# A deadline would measure how busy the machine is; so does the check for slow data.
hypothesis.settings.register_profile(
    "licorne", deadline=None, suppress_health_check=[hypothesis.HealthCheck.too_slow]
)
# Whoever reads a failure of CI has neither its database of examples nor its random numbers.
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
    """Two processes more than processors: tests of servers and members wait more than they compute.

    None if xdist's own variable says how many.
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
    """While tests are collected, next to nothing becomes garbage."""
    gc.disable()


def pytest_collection_finish() -> None:
    """Have the garbage collector pass over the collected tests, which are thousands and stay to the end."""
    gc.collect()
    gc.freeze()
    gc.enable()


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Record the rows with tests, before tests are deselected by name, mark or missing programs."""
    acceptance.note_rows(config, items)
    programs.leave_out(config, items)
    if build_info().form == COMPILED:
        # Compiled code looks neither for what took a function's place, nor for who counts lines.
        of_pure = [item for item in items if item.get_closest_marker("pure")]
        config.hook.pytest_deselected(items=of_pure)
        items[:] = [item for item in items if item not in of_pure]


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print the costs of several folders, and the tests above the budget; with `-n` it is the same."""
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
    """Objects are freed by reference counts alone, as in the server.

    Present objects are excluded from the collector's counts: only those of the test count.
    """
    gc.collect()
    gc.freeze()
    gc.disable()
    yield
    gc.enable()


@pytest.fixture
def usual_levels() -> Iterator[None]:
    """The levels of the process's log are as usual, before and after."""
    levels().begin("info")
    yield
    levels().begin("info")


@pytest.fixture
def rewrite(request: pytest.FixtureRequest) -> bool:
    """Whether expected output is to be written instead of compared."""
    wanted: bool = request.config.getoption("--rewrite")
    return wanted


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def cluster(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Cluster]:
    """A Kubernetes with four nodes for all tests of a process, which have namespaces of their own in it."""
    async with running_cluster(tmp_path_factory.mktemp("kube")) as running:
        yield running


@pytest.fixture(scope="session")
def plane(cluster: Cluster) -> Plane:
    """The control plane of the cluster."""
    return cluster.plane


@pytest.fixture(scope="session", autouse=True)
def _same_surroundings(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Tests and the processes they start find the same, whoever has started pytest."""
    with pytest.MonkeyPatch.context() as patch, _heard(signal.SIGINT), _heard(signal.SIGTERM):
        for name in filter(is_meant_for_others, list(os.environ)):
            patch.delenv(name)
        guard_default_addresses(patch)
        patch.setenv("TERM", "xterm")
        for kit in ("fake_rm", "parts", "serving"):
            patch.setattr(f"licorne_server.testing.{kit}.PATIENCE", PATIENCE)
        # Servers inside the test process log beside what a command prints, whatever they log.
        structlog.configure(logger_factory=structlog.PrintLoggerFactory(sys.__stderr__))
        patch.setenv(PATH_VARIABLE, str(tmp_path_factory.mktemp("home") / "contexts.yaml"))
        yield


@contextmanager
def _heard(number: signal.Signals) -> Iterator[None]:
    """Let the processes that are started here hear a signal, even if this one ignores it.

    Under nohup or in the background of a script, signals are ignored. That is inherited by every
    process that is started; a handler is not. So a handler that does nothing takes its place.
    """
    if signal.getsignal(number) is not signal.SIG_IGN:
        yield
        return
    signal.signal(number, lambda *_: None)
    yield
    signal.signal(number, signal.SIG_IGN)
