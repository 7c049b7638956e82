"""What Python does, counted: promises about cost are about work, and not about time."""

import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from types import FrameType, ModuleType
from typing import Any

import licorne_core

CORE = str(Path(licorne_core.__file__).parent)


def lines_in(work: Callable[[], object], *modules: ModuleType) -> Counter[str]:
    """How many lines of each function of the modules run while the work is done.

    The modules have to run from their source: such a test is marked `pure`.
    """
    files = {module.__file__ for module in modules}
    return counted(work, files.__contains__)


def lines_of_core(work: Callable[[], object]) -> int:
    """How many lines of the core run while the work is done; such a test is marked `pure`."""
    return counted(work, lambda file: file.startswith(CORE)).total()


def counted(work: Callable[[], object], counts: Callable[[str], bool]) -> Counter[str]:
    """The lines that run of the files that count, by the name of their function."""
    lines: Counter[str] = Counter()

    def trace(frame: FrameType, event: str, _: Any) -> Any:
        if not counts(frame.f_code.co_filename):
            return None
        lines[frame.f_code.co_name] += event == "line"
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        work()
    finally:
        sys.settrace(before)
    return lines
