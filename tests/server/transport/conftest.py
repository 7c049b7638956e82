"""Tests of the transport need its compiled half, but for those of metadata."""

from importlib.util import find_spec
from pathlib import Path

if find_spec("licorne_transport") is None:
    collect_ignore = [path.name for path in Path(__file__).parent.glob("test_[!m]*.py")]
