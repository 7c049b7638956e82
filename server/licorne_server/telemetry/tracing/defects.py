"""Shields the server from defects of the traces: they end the traces and nothing else."""

from collections.abc import Callable
from functools import wraps
from typing import Concatenate, ParamSpec, Protocol, TypeVar


class Defects:
    """The first defect of a server's traces, which ends them."""

    failed: bool

    def __init__(self, tell: Callable[[], None]) -> None:
        """Start without a defect. `tell` is called while the exception of a defect is handled."""
        self.failed = False
        self._tell = tell

    def fail(self) -> None:
        """End the traces, and report the first defect: the exception that is handled."""
        if not self.failed:
            self.failed = True
            self._tell()


class Guarded(Protocol):
    """Owner of `harmless` methods."""

    defects: Defects


G = TypeVar("G", bound=Guarded)
P = ParamSpec("P")
R = TypeVar("R")


def harmless(work: Callable[Concatenate[G, P], R]) -> Callable[Concatenate[G, P], R | None]:
    """Decorate a method: a failure is reported, ends the traces, and returns None."""

    @wraps(work)
    def guarded(one: G, /, *args: P.args, **kwargs: P.kwargs) -> R | None:
        if not one.defects.failed:
            try:
                return work(one, *args, **kwargs)
            except Exception:
                one.defects.fail()
        return None

    return guarded
