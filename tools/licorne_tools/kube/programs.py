"""The programs of a control plane, built from their Go modules and cached."""

import hashlib
import os
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from licorne_tools.bench.driver import BenchError, Progress

CHECKOUT = Path(__file__).parents[3]
MODULES = CHECKOUT / "tools/kube"
"""Folder of Go modules without code, which depend on the programs."""
SHIMS = CHECKOUT / "clients/go/shimtest"
VERSION = "1.36.3"
"""Version of Kubernetes, as in `control-plane/go.mod`."""
SHOWN_LINES = 15

API_SERVER, CONTROLLERS, SCHEDULER = "kube-apiserver", "kube-controller-manager", "kube-scheduler"
KUBECTL, KWOK, ETCD = "kubectl", "kwok", "etcd"
SHIM, OLDER_SHIM, LOAD = "licorne-k8shim", "yunikorn-scheduler", "kubeload"


@dataclass(frozen=True, slots=True)
class ProgramSource:
    """Source of a program: a Go module of this checkout, and the main package in it or its dependencies."""

    module: Path
    package: str


SOURCES: Mapping[str, ProgramSource] = {
    **{
        name: ProgramSource(MODULES / "control-plane", f"k8s.io/kubernetes/cmd/{name}")
        for name in (API_SERVER, CONTROLLERS, SCHEDULER, KUBECTL)
    },
    KWOK: ProgramSource(MODULES / "kwok", "sigs.k8s.io/kwok/cmd/kwok"),
    SHIM: ProgramSource(SHIMS, "./cmd/licorne-k8shim"),
    LOAD: ProgramSource(SHIMS, "./cmd/kubeload"),
    OLDER_SHIM: ProgramSource(SHIMS, "github.com/apache/yunikorn-k8shim/pkg/cmd/shim"),
}
# Link flags that set the version: programs report it, and compare it with other programs' versions.
LINKED = " ".join(
    (
        "-s -w",
        f"-X k8s.io/component-base/version.gitVersion=v{VERSION}",
        *(
            f"-X k8s.io/component-base/version.{part}={number}"
            for part, number in zip(("gitMajor", "gitMinor"), VERSION.split("."), strict=False)
        ),
    )
)


def missing() -> list[str]:
    """The required commands that are not installed: Go, etcd or openssl."""
    return [name for name in ("go", ETCD, "openssl") if shutil.which(name) is None]


def check() -> None:
    """Check that Go, etcd and openssl are installed.

    Raises:
        BenchError: a command is missing; the text has its name and source.
    """
    where = {
        "go": "Go 1.26 or newer",
        ETCD: "etcd, which Debian has in the package etcd-server",
        "openssl": "openssl",
    }
    if gone := missing():
        raise BenchError(f"a control plane needs {' and '.join(where[name] for name in gone)} on the PATH")


def built(names: Sequence[str], progress: Progress | None = None) -> dict[str, Path]:
    """The paths of programs by name; a program that is not cached takes minutes to build.

    Raises:
        BenchError: Go is not installed, or a program cannot be built.
    """
    check()
    return {name: _built(name, progress) for name in names}


def _built(name: str, progress: Progress | None) -> Path:
    source = SOURCES[name]
    folder = cache() / (_digest(source.module) if source.module.is_relative_to(MODULES) else "shims")
    program = folder / name
    # Programs of the checkout are always rebuilt, because Go detects changes by itself.
    if program.exists() and source.module.is_relative_to(MODULES):
        return program
    if progress is not None:
        progress.begin(f"building {name}")
    folder.mkdir(parents=True, exist_ok=True)
    made = folder / f".{name}.{os.getpid()}"
    command = [
        "go",
        "build",
        "-trimpath",
        "-buildvcs=false",
        f"-ldflags={LINKED}",
        "-o",
        str(made),
        source.package,
    ]
    done = subprocess.run(command, cwd=source.module, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        text = "\n".join(done.stderr.splitlines()[-SHOWN_LINES:])
        raise BenchError(f"{name} cannot be built:\n{text}")
    # An atomic replacement: even after concurrent builds the program is complete.
    made.replace(program)
    return program


def cache() -> Path:
    """The folder of built programs."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "licorne/kube"


def _digest(module: Path) -> str:
    """Digest of the versions of modules and Go, and of the link flags, on which a program depends."""
    digest = hashlib.sha256(LINKED.encode())
    for name in ("go.mod", "go.sum"):
        digest.update((module / name).read_bytes())
    version = subprocess.run(["go", "version"], capture_output=True, check=True).stdout
    digest.update(version)
    return digest.hexdigest()[:16]
