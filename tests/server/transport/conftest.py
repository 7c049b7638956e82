"""Tests of the transport, which need its compiled half, except for those of parts in plain Python."""

from importlib.util import find_spec
from pathlib import Path

PLAIN = {"test_metadata.py", "test_rounds.py", "test_unfinished.py"}

if find_spec("licorne_transport") is None:
    collect_ignore = [path.name for path in Path(__file__).parent.glob("test_*.py") if path.name not in PLAIN]
