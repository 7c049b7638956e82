"""Checkouts to start servers from."""

from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]


def write(path: Path, text: str = "", *, mode: int = 0o644) -> Path:
    """A file, with the folders that it is in."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(mode)
    return path


def with_our_sources(folder: Path) -> Path:
    """A checkout with the sources of this one, and no interpreter."""
    for name in ("core", "server", "clients"):
        (folder / name).symlink_to(ROOT / name)
    return folder


def older(folder: Path, program: str) -> Path:
    """A checkout that has no more than a core and this program."""
    for name in ("core/licorne_core", "core/licorne_core/config", "server/licorne_server"):
        write(folder / name / "__init__.py")
    write(folder / "core/licorne_core/config/schema.py")
    write(folder / "server/licorne_server/__main__.py", program)
    return folder
