"""Repositories to try things on."""

import subprocess
from pathlib import Path

_AUTHOR = ("-c", "user.name=x", "-c", "user.email=x@example.org", "-c", "commit.gpgsign=false")


def git(folder: Path, *words: str) -> str:
    """One command of git, which must succeed; what it prints."""
    done = subprocess.run(
        ["git", "-C", str(folder), *_AUTHOR, *words], check=True, capture_output=True, text=True
    )
    return done.stdout.strip()


def commit(folder: Path, *options: str) -> str:
    """Commit all that is there; the short id of it."""
    if not (folder / ".git").exists():
        git(folder, "init", "--initial-branch=main")
    git(folder, "add", ".")
    git(folder, "commit", "--quiet", "--allow-empty", "--message=x", *options)
    return git(folder, "rev-parse", "--short", "HEAD")
