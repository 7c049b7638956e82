"""Counts calls: a measure of work that is the same on every machine."""

import gc
import sys
from collections.abc import Callable
from types import FrameType


def calls(action: Callable[[], object]) -> int:
    """How many functions are called in an action, those written in C included.

    Garbage is not collected meanwhile: whoever wants to hear of that is called then, too.
    """
    counted = 0

    def count(_: FrameType, event: str, __: object) -> None:
        nonlocal counted
        counted += event in ("call", "c_call")

    gc.disable()
    sys.setprofile(count)
    try:
        action()
    finally:
        sys.setprofile(None)
        gc.enable()
    return counted
