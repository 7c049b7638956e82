"""The sources that may be compiled."""

from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = (ROOT / "core", ROOT / "server")
