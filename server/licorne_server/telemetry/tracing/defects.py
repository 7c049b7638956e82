"""Keeps defects of the traces from the rest of the server: they end the traces and nothing else."""

from collections.abc import Callable
from functools import wraps
from typing import Concatenate, ParamSpec, Protocol, TypeVar


class Defects:
    """Whether a defect has ended the traces of a server."""

    failed: bool

    def __init__(self, tell: Callable[[], None]) -> None:
        """None yet. `tell` is called while the exception of a defect is handled."""
        self.failed = False
        self._tell = tell

    def fail(self) -> None:
        """Make no traces any more, and tell of the first defect: the exception that is handled."""
        if not self.failed:
            self.failed = True
            self._tell()


class Guarded(Protocol):
    """What has methods that are `harmless`."""

    defects: Defects


G = TypeVar("G", bound=Guarded)
P = ParamSpec("P")
R = TypeVar("R")


def harmless(work: Callable[Concatenate[G, P], R]) -> Callable[Concatenate[G, P], R | None]:
    """What fails in there is told, and is the last that is traced; None comes back then."""

    @wraps(work)
    def guarded(one: G, /, *args: P.args, **kwargs: P.kwargs) -> R | None:
        if not one.defects.failed:
            try:
                return work(one, *args, **kwargs)
            except Exception:
                one.defects.fail()
        return None

    return guarded
