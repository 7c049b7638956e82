"""The states of an application, as they are published to RMs and readers (spec § 5.1)."""

from enum import StrEnum


class AppState(StrEnum):
    """State names as the RM reads them."""

    NEW = "New"
    ACCEPTED = "Accepted"
    RUNNING = "Running"
    COMPLETING = "Completing"
    COMPLETED = "Completed"
    FAILING = "Failing"
    FAILED = "Failed"
    RESUMING = "Resuming"
    REJECTED = "Rejected"
    EXPIRED = "Expired"
