"""Make the Python wire code from the .proto files, or check that it is up to date.

    python proto/generate.py            rewrite clients/python/licorne/{v1,si}
    python proto/generate.py --check    compare only; exit 1 where they differ

Runs in an environment of its own, made from proto/requirements.txt.
"""

import argparse
import filecmp
import shutil
import sys
import tempfile
from importlib.resources import files
from pathlib import Path

from grpc_tools import protoc

PROTO = Path(__file__).resolve().parent
CLIENT = PROTO.parent / "clients" / "python"
TOOLS = Path(sys.executable).parent
PLUGINS = ("mypy", "mypy_grpc")
OWNED = ("licorne/v1", "licorne/si")
PACKAGE_MARK = '"""Generated from the .proto files of this path; nothing is hand-written."""\n'


def generate(target: Path) -> None:
    """Write all wire code and its type stubs below `target`."""
    sources = sorted(str(path.relative_to(PROTO)) for path in PROTO.rglob("*.proto"))
    arguments = [
        "protoc",
        f"--proto_path={PROTO}",
        f"--proto_path={files('grpc_tools') / '_proto'}",
        *(f"--plugin=protoc-gen-{name}={TOOLS / f'protoc-gen-{name}'}" for name in PLUGINS),
        f"--python_out={target}",
        f"--grpc_python_out={target}",
        *(f"--{name}_out=quiet:{target}" for name in PLUGINS),
        *sources,
    ]
    if protoc.main(arguments) != 0:
        sys.exit("generate: protoc failed, see above")
    for root in OWNED:
        for folder in sorted({path.parent for path in (target / root).rglob("*.py")}):
            (folder / "__init__.py").write_text(PACKAGE_MARK)
    (target / "licorne/si/__init__.py").write_text(PACKAGE_MARK)


def wire_files(base: Path) -> set[str]:
    """Every generated file below `base`, by its path from there."""
    return {
        str(path.relative_to(base))
        for root in OWNED
        for path in (base / root).rglob("*")
        if path.is_file() and path.suffix in {".py", ".pyi"}
    }


def differing(fresh: Path) -> list[str]:
    """The files that are missing, superfluous or unlike in the client package."""
    names = wire_files(fresh) | wire_files(CLIENT)
    _, unlike, missing = filecmp.cmpfiles(fresh, CLIENT, names, shallow=False)
    return sorted(unlike + missing)


def main() -> None:
    """Generate aside, then compare or replace."""
    parser = argparse.ArgumentParser(description="Make the wire code from the .proto files.")
    parser.add_argument("--check", action="store_true", help="only compare")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        fresh = Path(folder)
        generate(fresh)
        if options.check:
            stale = differing(fresh)
            if stale:
                sys.exit("\n".join(["wire code is out of date, run `make gen`:", *stale]))
            return
        for root in OWNED:
            shutil.rmtree(CLIENT / root, ignore_errors=True)
            if (fresh / root).exists():
                shutil.copytree(fresh / root, CLIENT / root)


if __name__ == "__main__":
    main()
