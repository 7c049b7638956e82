"""Revisions to store."""

from licorne_core.config import load
from licorne_core.values.ids import RmId
from licorne_server.store.configurations.revisions import Revisions, Source, extra_text

EXTRA = extra_text({"event.trackingEnabled": "false", "é": "\0"})


def revisions_of(rm_id: str, *configs: str, said: str = "", extra: str = "") -> Revisions:
    """Revisions with these texts."""
    revisions = Revisions(rm_id=RmId(rm_id))
    for number, config in enumerate(configs, start=1):
        revisions = revisions.adding(
            load(config),
            Source.OPERATOR,
            time=number,
            by="ann — é",
            comment=f"number {number}",
            extra=extra,
            instead_of=number - 1 if extra else 0,
        )
    return revisions.saying(said, extra)
