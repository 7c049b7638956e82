"""The states of all workers, which the supervisor writes and each worker reads from the store."""

import json
from collections.abc import Iterable
from typing import NamedTuple

from licorne_server.store.coordination.store import SHARED, Snapshot

STATUS = f"{SHARED}workers"
"""Key of the document."""


class Known(NamedTuple):
    """What the supervisor says of a worker."""

    worker: int
    """Its number."""
    state: str
    restarts: int
    """Since the supervisor's start."""
    looping: bool
    """True if it fails again and again."""


def status_text(workers: Iterable[Known]) -> bytes:
    """The document."""
    return json.dumps([worker._asdict() for worker in workers]).encode()


def known_workers(snapshot: Snapshot) -> list[Known]:
    """All workers, as the supervisor last said; none for a server that is no worker."""
    document = snapshot.documents.get(STATUS)
    return [] if document is None else [Known(**each) for each in json.loads(document.value)]
