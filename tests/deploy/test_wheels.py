"""Each wheel of `dist/`, installed with its dependencies into an environment of its own."""

import asyncio
import subprocess
import sys
from collections.abc import Callable
from importlib.metadata import Distribution, distributions
from pathlib import Path
from zipfile import ZipFile

import pytest

from licorne_server.testing import FakeRM
from support.server.server_process import ServerProcess

pytestmark = pytest.mark.wheels

ROOT = Path(__file__).parents[2]
DIST = ROOT / "dist"
PURE = DIST / "pure"
PACKAGES = {
    "licorne_client": {"licorne"},
    "licorne_cli": {"licorne_cli"},
    "licorne_server": {"licorne_core", "licorne_server"},
}
"""The packages of a pure wheel, without its metadata."""
OF_CLIENT = {
    "licorne-client",
    "googleapis-common-protos",
    "grpcio",
    "protobuf",
    "typing_extensions",
}
OF_COMMAND_LINE = OF_CLIENT | {
    "licorne-cli",
    "argcomplete",
    "grpcio-status",
    "linkify-it-py",
    "markdown-it-py",
    "mdit-py-plugins",
    "mdurl",
    "platformdirs",
    "Pygments",
    "PyYAML",
    "rich",
    "textual",
}
"""All dependencies of the command line. Each further one makes an installation slower."""
OF_SERVER = {"serve", "demo", "fake-rm", "validate-config"}
SECONDS = 240

Environment = Callable[..., subprocess.CompletedProcess[str]]


def environment(folder: Path, *wanted: str, by_pip: bool = False) -> Environment:
    """A new environment with distributions of `dist/`, which runs its programs from its folder.

    uv installs them, in a fraction of the time, unless a page uses pip.
    """
    uv = (sys.executable, "-m", "uv", "--quiet")
    made = (sys.executable, "-m", "venv") if by_pip else (*uv, "venv", "--python", sys.executable)
    subprocess.run([*made, str(folder)], check=True, timeout=SECONDS)

    def run(program: str, *arguments: str, code: int = 0) -> subprocess.CompletedProcess[str]:
        done = subprocess.run(
            [str(folder / "bin" / program), *arguments],
            cwd=folder,
            capture_output=True,
            text=True,
            timeout=SECONDS,
            check=False,
        )
        assert done.returncode == code, f"{program} {arguments}: {done.stdout}{done.stderr}"
        return done

    places = ("--only-binary", ":all:", "--find-links", str(DIST), "--find-links", str(PURE))
    python = str(folder / "bin/python")
    pip = (python, "-m", "pip", "--quiet") if by_pip else (*uv, "pip")
    at = () if by_pip else ("--python", python)
    # uv caches wheels of a folder by their names, and would install those of an earlier build.
    anew = () if by_pip else (f"--refresh-package={name.replace('_', '-')}" for name in PACKAGES)
    words = ("install", "-c", str(ROOT / "constraints.txt"), *places, *anew, *wanted)
    for one in (words, ("check",)):
        subprocess.run([*pip, *one, *at], check=True, timeout=SECONDS)
    return run


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Environment:
    """An environment with the client alone."""
    return environment(tmp_path_factory.mktemp("client"), "licorne-client")


@pytest.fixture(scope="module")
def command_line(tmp_path_factory: pytest.TempPathFactory) -> Environment:
    """The environment of an operator's laptop."""
    return environment(tmp_path_factory.mktemp("cli"), "licorne-cli")


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Environment:
    """The environment of a server, by ``pip install dist/*.whl``."""
    return environment(tmp_path_factory.mktemp("server"), *map(str, DIST.glob("*.whl")), by_pip=True)


def installed(run: Environment) -> set[str]:
    """The distributions of an environment, without those of every environment."""
    found = run("python", "-c", "import sysconfig; print(sysconfig.get_path('purelib'))").stdout
    here: list[Distribution] = list(distributions(path=[found.strip()]))
    return {one.name for one in here} - {"pip", "setuptools"}


def test_wheels_have_the_shipped_modules_only() -> None:
    """Each distribution has one pure wheel, the server also a compiled one, without tools and tests.

    No two in one folder have one version, which pip would refuse to install together. The transport, which is
    built where cargo is installed, has one module.
    """
    wheels = {path: ZipFile(path).namelist() for path in (*DIST.glob("*.whl"), *PURE.glob("*.whl"))}
    assert len({(path.parent, path.name.partition("-")[0]) for path in wheels}) == len(wheels)
    pure = [path for path in wheels if path.name.endswith("-py3-none-any.whl")]
    assert {path.name.partition("-")[0] for path in pure} == PACKAGES.keys()
    for path in pure:
        tops = {name.partition("/")[0] for name in wheels[path] if ".dist-info/" not in name}
        assert tops == PACKAGES[path.name.partition("-")[0]]
        assert not [name for name in wheels[path] if name.endswith(".so")]
    transport = {path for path in wheels if path.name.startswith("licorne_transport-")}
    assert {
        name.partition("/")[0] for path in transport for name in wheels[path] if "dist-info" not in name
    } <= {"licorne_transport"}
    [compiled] = wheels.keys() - set(pure) - transport
    [source] = [path for path in pure if path.name.startswith("licorne_server-")]
    added = set(wheels[compiled]) - set(wheels[source])
    assert added
    assert all(name.endswith(".so") for name in added)


def test_the_client_needs_grpc_and_protobuf(client: Environment) -> None:
    """The client is imported without anything else installed, and has no command."""
    assert installed(client) == OF_CLIENT
    assert client("python", "-c", "import licorne; print(licorne.Client)").stdout
    with pytest.raises(FileNotFoundError):
        client("licorne", "version")


def test_the_command_line_is_small(command_line: Environment) -> None:
    """The command line has no part of the server, and names the distribution of a missing command."""
    assert installed(command_line) == OF_COMMAND_LINE
    said = command_line("licorne", "version", "--client").stdout
    assert said.endswith("; no server package is installed here\n")
    shown = command_line("licorne", "--help").stdout
    assert not [name for name in OF_SERVER if f"\n  {name} " in shown]
    for name in OF_SERVER:
        refused = command_line("licorne", name, code=1)
        assert refused.stderr == (f"licorne: {name} comes with licorne-server, which is not installed here\n")
    assert "_python_argcomplete licorne" in command_line("licorne", "completion", "bash").stdout


def test_pip_installs_the_compiled_server(server: Environment, tmp_path: Path) -> None:
    """`licorne version` reports the compiled form, also if pip has a choice."""
    assert ", compiled, " in server("licorne", "version", "--client").stdout
    arguments = ("--find-links", str(DIST), "--find-links", str(PURE), "licorne-server")
    options = ("--quiet", "--no-index", "--no-deps", "--target", str(tmp_path))
    server("python", "-m", "pip", "install", *options, *arguments)
    assert list(tmp_path.rglob("licorne_core/**/*.so"))


def test_the_server_brings_its_commands(server: Environment) -> None:
    """Both ways to start a command work, and the demo runs."""
    assert server("python", "-m", "licorne_server", "--version").stdout.startswith("licorne ")
    shown = server("licorne", "--help").stdout
    assert [name for name in OF_SERVER if f"\n  {name} " not in shown] == []
    assert "bench" not in shown
    refused = server("licorne", "bench", code=1)
    assert refused.stderr == "licorne: bench comes with licorne-tools, which is not installed here\n"
    assert "allocations" in server("licorne", "demo", "--seconds", "2").stdout


QUEUES = """
partitions:
  - name: default
    queues: [{name: root, submitacl: "*", queues: [{name: a, resources: {max: {vcore: 2}}}]}]
"""
JOB = "{application: job, user: ann, queue: root.a, asks: [{resources: {vcore: 1}}]}"


@pytest.fixture
def files(tmp_path: Path) -> list[str]:
    """Two configurations and an application."""
    texts = (QUEUES, QUEUES.replace("vcore: 2", "vcore: 3"), JOB)
    places = [tmp_path / f"{number}.yaml" for number in range(len(texts))]
    for place, text in zip(places, texts, strict=True):
        place.write_text(text)
    return [str(place) for place in places]


async def test_the_command_line_operates_a_server(
    command_line: Environment, server: Environment, files: list[str]
) -> None:
    """Commands over gRPC work where the server's package is not installed."""
    queues, wider, job = files
    server("licorne", "validate-config", queues)
    prefix = server("python", "-c", "import sys; print(sys.prefix)").stdout.strip()
    serving = ServerProcess("--config", queues, program=(f"{prefix}/bin/licorne",))
    async with serving as process, FakeRM(process.target, rm_id="rm") as rm:
        await rm.add_nodes(1)

        async def said(*words: str, code: int = 0) -> str:
            arguments = (*words, "--target", process.target)
            done = await asyncio.to_thread(command_line, "licorne", *arguments, code=code)
            return done.stdout

        assert f"\nserver {process.target}: licorne " in await said("version")
        assert "root.a" in await said("queues")
        assert len((await said("nodes", "--no-headers")).splitlines()) == 1
        assert "max: vcore=2 -> vcore=3" in await said("config", "diff", wider, code=1)
        assert await said("config", "apply", wider, "--yes")
        assert "application job would go to queue root.a" in await said("apps", "plan", job)
