"""Containers of podman, in a store of their own that is removed completely.

``python -m support.containers`` ends with 0 if containers can run here, and with `REFUSED` and the reason
otherwise.
"""

import json
import os
import resource
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from support.docs.pages import ROOT
from support.patience import PATIENCE

BUILD_SECONDS = 2400.0
END_SECONDS = 20.0
REFUSED = 3


@dataclass(frozen=True, slots=True)
class Podman:
    """The program, with a store, networks and volumes of its own."""

    environment: Mapping[str, str]

    def program(
        self, *command: str | Path, seconds: float = PATIENCE, ok: bool = True
    ) -> subprocess.CompletedProcess[str]:
        """Run a program that uses podman, such as make or podman-compose; its child processes end with it."""
        with subprocess.Popen(
            command,
            cwd=ROOT,
            env=self.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        ) as process:
            try:
                out, err = process.communicate(timeout=seconds)
            except BaseException:
                _end_session(process)
                raise
        done = subprocess.CompletedProcess(process.args, process.returncode, out, err)
        if ok:
            assert done.returncode == 0, f"{command} ends with {done.returncode}:\n{done.stdout}{done.stderr}"
        return done

    def __call__(self, *words: str, ok: bool = True) -> str:
        """Run podman; return its output."""
        return self.program("podman", *words, ok=ok).stdout.strip()

    def inspect(self, name: str, kind: str = "container") -> Any:
        """Podman's description of an object."""
        [found] = json.loads(self("inspect", "--type", kind, name))
        return found

    def published(self, name: str, port: int) -> str:
        """The address of a container's port on this machine."""
        return self("port", name, f"{port}/tcp").splitlines()[0]


def _end_session(process: subprocess.Popen[str]) -> None:
    """Let the session remove its containers, and kill the remaining processes."""
    os.killpg(process.pid, signal.SIGTERM)
    with suppress(subprocess.TimeoutExpired):
        process.wait(END_SECONDS)
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)


@contextmanager
def podman() -> Iterator[Podman]:
    """Podman with a new store; at the end all containers are stopped, and everything is removed."""
    # The folder has sockets, whose paths must be short.
    folder = Path("/var/tmp") / f"licorne-{os.getpid()}"
    folder.mkdir()
    try:
        (folder / "storage.conf").write_text(_storage(folder))
        (folder / "containers.conf").write_text(_settings(folder))
        files = {
            "CONTAINERS_STORAGE_CONF": str(folder / "storage.conf"),
            "CONTAINERS_CONF": str(folder / "containers.conf"),
            "TMPDIR": str(folder),
            # No image is built twice in this store.
            "BUILDAH_LAYERS": "false",
        }
        own = Podman(os.environ | files)
        try:
            yield own
        finally:
            own("rm", "--all", "--force", "--time", "0", "--volumes", ok=False)
            own("pod", "rm", "--all", "--force", ok=False)
            own("network", "prune", "--force", ok=False)
            # This unmounts the images of the store.
            own("rmi", "--all", "--force", ok=False)
    finally:
        shutil.rmtree(folder)


def _storage(folder: Path) -> str:
    return f'[storage]\ndriver = "overlay"\ngraphroot = "{folder}/store"\nrunroot = "{folder}/run"\n'


def _settings(folder: Path) -> str:
    # By default podman sets limits that a process without all of root's privileges may not set.
    files, processes = (resource.getrlimit(one)[1] for one in (resource.RLIMIT_NOFILE, resource.RLIMIT_NPROC))
    all_processes = int(Path("/proc/sys/kernel/pid_max").read_text())
    processes = all_processes if processes == resource.RLIM_INFINITY else min(processes, all_processes)
    limits = f'["nofile={files}:{files}", "nproc={processes}:{processes}"]'
    return f"""
[containers]
default_ulimits = {limits}
[engine]
events_logger = "file"
tmp_dir = "{folder}/tmp"
[network]
network_config_dir = "{folder}/networks"
"""


def refusal() -> str:
    """The reason of podman why no container can run here; empty if one can."""
    if shutil.which("podman") is None:
        return "podman is not installed"
    with podman() as own, TemporaryDirectory() as root:
        program = Path("/bin/true").resolve()
        needed = subprocess.run(["ldd", program], capture_output=True, text=True, check=True).stdout.split()
        for file in {str(program), *(word for word in needed if word.startswith("/"))}:
            place = Path(root + file)
            place.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(file, place)
        ran = own.program(
            "podman", "run", "--rm", "--network", "none", "--rootfs", root, str(program), ok=False
        )
        return "" if ran.returncode == 0 else ran.stderr.strip().replace("\n", "; ")


if __name__ == "__main__":
    REFUSAL = refusal()
    print(REFUSAL)
    sys.exit(REFUSED if REFUSAL else 0)
