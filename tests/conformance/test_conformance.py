"""Every client keeps the contract of a session: scenarios of `clients/conformance`, played."""

import fcntl
from collections.abc import Callable, Sequence

import pytest

from conformance.languages import LANGUAGES
from conformance.scenario import FOLDER, Scenario, read
from conformance.stage import Stage

SCENARIOS = [read(path) for path in sorted(FOLDER.glob("*.yaml"))]
RUNS = [
    pytest.param(
        scenario,
        seed,
        id=scenario.name + (f"-{seed}" if len(scenario.seeds) > 1 else ""),
        # Several members share a store.
        marks=pytest.mark.needs("etcd") if scenario.members > 1 else (),
    )
    for scenario in SCENARIOS
    for seed in scenario.seeds
]
Program = Callable[[str], Sequence[str]]


@pytest.fixture(scope="session")
def program(tmp_path_factory: pytest.TempPathFactory, worker_id: str) -> Program:
    """The command that starts the peer of a language.

    Processes that share the tests share the builds: the first one builds, and the others wait.
    """
    base = tmp_path_factory.getbasetemp()
    folder = (base if worker_id == "master" else base.parent) / "conformance"
    folder.mkdir(exist_ok=True)

    def command(language: str) -> Sequence[str]:
        with (folder / f"{language}.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            return LANGUAGES[language](folder)

    return command


@pytest.mark.parametrize("language", ["python", pytest.param("go", marks=pytest.mark.needs("go"))])
@pytest.mark.parametrize(("scenario", "seed"), RUNS)
async def test_client_and_server_pass_the_scenario(
    scenario: Scenario, seed: int, language: str, program: Program
) -> None:
    """Client and server meet the expectations of the scenario."""
    await Stage(scenario, seed, program(language)).play()
