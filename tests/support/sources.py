"""A process that runs our packages as they are written, also where they are compiled."""

import sys
from importlib.machinery import SOURCE_SUFFIXES, FileFinder, SourceFileLoader
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = (ROOT / "core", ROOT / "server")


def prefer_sources() -> None:
    """Import what is ours from its sources; to be called before any of it is imported."""
    sys.path_hooks.insert(0, _finder)
    sys.path_importer_cache.clear()


def _finder(folder: str) -> FileFinder:
    if not any(Path(folder).is_relative_to(package) for package in PACKAGES):
        raise ImportError(f"{folder} is not ours")
    return FileFinder(folder, (SourceFileLoader, SOURCE_SUFFIXES))
