"""The states of a queue (spec § 4.2)."""

from enum import Enum


class QueueState(Enum):
    """State names as operators read them."""

    ACTIVE = "Active"
    DRAINING = "Draining"
    STOPPED = "Stopped"
