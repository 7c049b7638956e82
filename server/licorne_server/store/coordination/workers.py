"""The states of all workers, which the supervisor writes and each worker reads from the store."""

import json
from collections.abc import Iterable
from typing import NamedTuple

from licorne_server.store.coordination.store import Snapshot
from licorne_server.store.documents.documents import SHARED

STATUS = f"{SHARED}workers"
"""Key of the document."""


class Known(NamedTuple):
    """The supervisor's report about a worker."""

    worker: int
    """Number of the worker."""
    state: str
    restarts: int
    """Number of restarts since the supervisor's start."""
    looping: bool
    """True if it fails again and again."""


def status_text(workers: Iterable[Known]) -> bytes:
    """Encode the document."""
    return json.dumps([worker._asdict() for worker in workers]).encode()


def known_workers(snapshot: Snapshot) -> list[Known]:
    """All workers, by the supervisor's last report; empty for a server that is no worker."""
    document = snapshot.documents.get(STATUS)
    return [] if document is None else [Known(**each) for each in json.loads(document.value)]
