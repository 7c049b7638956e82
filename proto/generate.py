"""Generate the wire code from the .proto files, or check that it is up to date.

    python proto/generate.py            rewrite clients/python/licorne/{v1,si}, clients/go/licornev1,
                                        server/licorne_server/store/coordination/pb
    python proto/generate.py --check    compare only; exit 1 where they differ

Runs in a separate environment, made from proto/requirements.txt. The Go code needs a Go toolchain: its
plugins are the tools of clients/go/go.mod. Without a toolchain only Python is generated and checked.
"""

import argparse
import filecmp
import shutil
import subprocess
import sys
import tempfile
from importlib.resources import files
from pathlib import Path

from grpc_tools import protoc

PROTO = Path(__file__).resolve().parent
ROOT = PROTO.parent
SERVER_PROTO = ROOT / "server" / "proto"
"""Protocols that only servers use, with etcd and with each other: messages without stubs."""
TOOLS = Path(sys.executable).parent
PLUGINS = ("mypy", "mypy_grpc")
PYTHON_OWNED = (
    "clients/python/licorne/v1",
    "clients/python/licorne/si",
    "server/licorne_server/store/coordination/pb",
)
GO_OWNED = ("clients/go/licornev1",)
SUFFIXES = {".py", ".pyi", ".go"}
PACKAGE_MARK = '"""Generated from the .proto files of this path; nothing is hand-written."""\n'

GO_MODULE = "licorne.dev/clients/go"
GO_SOURCES = tuple(f"licorne/v1/{name}.proto" for name in ("admin", "session", "state"))
GO_PACKAGE_MARK = """\
// Package licornev1 is generated from proto/licorne/v1; nothing in it is hand-written.
package licornev1
"""
GO_PLUGINS = (
    "google.golang.org/protobuf/cmd/protoc-gen-go",
    "google.golang.org/grpc/cmd/protoc-gen-go-grpc",
)


def compile_protos(arguments: list[str], path: Path = PROTO) -> None:
    """Run protoc on the .proto files below `path`, with the imports that they need."""
    includes = [f"--proto_path={path}", f"--proto_path={files('grpc_tools') / '_proto'}"]
    if protoc.main(["protoc", *includes, *arguments]) != 0:
        sys.exit("generate: protoc failed, see above")


def generate_python(target: Path) -> None:
    """Write the Python code of the public protocols and its type stubs below `target`."""
    target.mkdir(parents=True)
    compile_protos(
        [
            *(f"--plugin=protoc-gen-{name}={TOOLS / f'protoc-gen-{name}'}" for name in PLUGINS),
            f"--python_out={target}",
            f"--grpc_python_out={target}",
            *(f"--{name}_out=quiet:{target}" for name in PLUGINS),
            *sorted(str(path.relative_to(PROTO)) for path in PROTO.rglob("*.proto")),
        ]
    )
    for root in ("licorne/v1", "licorne/si"):
        for folder in sorted({path.parent for path in (target / root).rglob("*.py")}):
            (folder / "__init__.py").write_text(PACKAGE_MARK)
    (target / "licorne/si/__init__.py").write_text(PACKAGE_MARK)


def generate_server(target: Path) -> None:
    """Write the messages of the server's own protocols below `target`, and their type stubs."""
    target.mkdir(parents=True)
    compile_protos(
        [
            f"--plugin=protoc-gen-mypy={TOOLS / 'protoc-gen-mypy'}",
            f"--python_out={target}",
            f"--mypy_out=quiet:{target}",
            *sorted(str(path.relative_to(SERVER_PROTO)) for path in SERVER_PROTO.rglob("*.proto")),
        ],
        SERVER_PROTO,
    )
    (target / "licorne_server" / "store" / "coordination" / "pb" / "__init__.py").write_text(PACKAGE_MARK)


def generate_go(target: Path, go: str) -> None:
    """Write the Go code below `target`, with plugins that the toolchain `go` builds."""
    target.mkdir(parents=True)
    with tempfile.TemporaryDirectory() as plugins:
        build = [go, "build", "-o", plugins, *GO_PLUGINS]
        if subprocess.run(build, cwd=ROOT / "clients" / "go", check=False).returncode != 0:
            sys.exit("generate: the Go plugins could not be built, see above")
        compile_protos(
            [
                *(f"--plugin={Path(plugins) / Path(name).name}" for name in GO_PLUGINS),
                f"--go_out=module={GO_MODULE}:{target}",
                f"--go-grpc_out=module={GO_MODULE}:{target}",
                *GO_SOURCES,
            ]
        )
    (target / "licornev1" / "doc.go").write_text(GO_PACKAGE_MARK)


def wire_files(base: Path, owned: tuple[str, ...]) -> set[str]:
    """The paths relative to `base` of all generated files below its folders `owned`."""
    return {
        str(path.relative_to(base))
        for root in owned
        for path in (base / root).rglob("*")
        if path.is_file() and path.suffix in SUFFIXES
    }


def differing(fresh: Path, owned: tuple[str, ...]) -> list[str]:
    """The files that are missing, superfluous or different in the checkout."""
    names = wire_files(fresh, owned) | wire_files(ROOT, owned)
    _, unlike, missing = filecmp.cmpfiles(fresh, ROOT, names, shallow=False)
    return sorted(unlike + missing)


def main() -> None:
    """Generate into a temporary folder, then compare with the checkout or replace its files."""
    parser = argparse.ArgumentParser(description="Make the wire code from the .proto files.")
    parser.add_argument("--check", action="store_true", help="only compare")
    options = parser.parse_args()
    go = shutil.which("go")
    owned = PYTHON_OWNED + GO_OWNED if go else PYTHON_OWNED
    with tempfile.TemporaryDirectory() as folder:
        fresh = Path(folder)
        generate_python(fresh / "clients" / "python")
        generate_server(fresh / "server")
        if go:
            generate_go(fresh / "clients" / "go", go)
        else:
            sys.stderr.write("generate: no Go toolchain is installed, so Go is left out\n")
        if options.check:
            stale = differing(fresh, owned)
            if stale:
                sys.exit("\n".join(["wire code is out of date, run `make gen`:", *stale]))
            return
        for root in owned:
            shutil.rmtree(ROOT / root, ignore_errors=True)
            if (fresh / root).exists():
                shutil.copytree(fresh / root, ROOT / root)


if __name__ == "__main__":
    main()
