"""What Python does, counted: promises about cost are about work, and not about time."""

import sys
from collections import Counter
from collections.abc import Callable
from types import FrameType, ModuleType
from typing import Any


def lines_in(work: Callable[[], object], *modules: ModuleType) -> Counter[str]:
    """How many lines of each function of the modules run while the work is done.

    The modules have to run from their source: such a test is marked `pure`.
    """
    files = {module.__file__ for module in modules}
    counts: Counter[str] = Counter()

    def trace(frame: FrameType, event: str, _: Any) -> Any:
        if frame.f_code.co_filename not in files:
            return None
        counts[frame.f_code.co_name] += event == "line"
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        work()
    finally:
        sys.settrace(before)
    return counts
