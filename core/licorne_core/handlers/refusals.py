"""Refusing what an operator wants."""

from licorne_core.effects import OperatorRefusal
from licorne_core.errors import LicorneError, shown
from licorne_core.partition import Partition
from licorne_core.registry import Rm


class Refused(LicorneError):
    """What an operator wants cannot be; the text says why."""

    def __init__(self, refusal: OperatorRefusal, reason: str) -> None:
        """`refusal` is for programs."""
        super().__init__(reason)
        self.refusal = refusal


def partition_meant(rm: Rm, name: str) -> Partition:
    """The RM's partition of that wire name.

    Raises:
        Refused: it has none.
    """
    partition = rm.find(name)
    if partition is None:
        raise Refused(
            OperatorRefusal.NOT_FOUND, f"partition {shown(rm.normalized(name))} not found"
        )
    return partition
