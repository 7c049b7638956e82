"""The state directory of a supervisor, with applied configurations, marks and budgets.

The documents are those of a single server, so that one can replace the other. State that only the running
processes need is not stored: slices of budgets, moves of RMs, the states of workers, and the secret. All
workers end with their supervisor, and RMs replay the usage from which slices are computed.
"""

from pathlib import Path

import structlog

from licorne_server.rms.budgets.escrow import BUDGETS
from licorne_server.store.coordination.moving import MOVES
from licorne_server.store.coordination.secret import KEY as SECRET
from licorne_server.store.coordination.workers import STATUS
from licorne_server.store.documents.disk import Disk
from licorne_server.store.documents.documents import Documents, StoreError
from licorne_server.store.documents.kept import Kept

log = structlog.get_logger("core.workers")

EPOCHS = "epochs"
"""Key of a number above all epochs that were assigned to RMs without a stored one."""

CLAIMS = 1 << 24
"""Number of epochs reserved for one run, which no later run assigns again, even if the clock was set back."""


def documents_of_workers(folder: Path | None) -> Kept:
    """The documents of all workers, in the state directory if there is one, or else in memory."""
    return Kept(None if folder is None else Disk(folder), (BUDGETS, MOVES, SECRET, STATUS))


async def rising(documents: Documents, start: int) -> int:
    """The number above which this run assigns epochs: `start`, or a higher one if the clock was set back.

    A full disk does not prevent the start.
    """
    start = max(start, int((await documents.read(EPOCHS)).value or 0))
    try:
        await documents.update(EPOCHS, lambda _: b"%d" % (start + CLAIMS))
    except StoreError as error:
        log.warning("epochs not stored", reason=str(error))
    return start
