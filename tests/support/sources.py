"""Sources of the product, and checkouts and repositories for trials."""

import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = (ROOT / "core", ROOT / "server")


_AUTHOR = ("-c", "user.name=x", "-c", "user.email=x@example.org", "-c", "commit.gpgsign=false")


def git(folder: Path, *words: str) -> str:
    """The output of a git command, which must succeed."""
    done = subprocess.run(
        ["git", "-C", str(folder), *_AUTHOR, *words], check=True, capture_output=True, text=True
    )
    return done.stdout.strip()


def commit(folder: Path, *options: str) -> str:
    """Commit all files; return the short id."""
    if not (folder / ".git").exists():
        git(folder, "init", "--initial-branch=main")
    git(folder, "add", ".")
    git(folder, "commit", "--quiet", "--allow-empty", "--message=x", *options)
    return git(folder, "rev-parse", "--short", "HEAD")


def write(path: Path, text: str = "", *, mode: int = 0o644) -> Path:
    """Write a file, and create its folders; return its path."""
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
    """A checkout with only a core and this program."""
    for name in ("core/licorne_core", "core/licorne_core/config", "server/licorne_server"):
        write(folder / name / "__init__.py")
    write(folder / "core/licorne_core/config/schema.py")
    write(folder / "server/licorne_server/__main__.py", program)
    return folder
