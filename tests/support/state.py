"""State directories: revisions to keep in one, and how its files are spoilt."""

from collections.abc import Callable
from pathlib import Path

from licorne_core.config import load
from licorne_core.values.ids import RmId
from licorne_server.store.configurations.revisions import Revisions, Source, extra_text
from licorne_server.store.configurations.state_dir import StateDir

Opened = Callable[[], tuple[StateDir, list[Revisions]]]
"""Opens the directory as another process would, after the former one has left it."""

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


def overwrite(path: Path, content: bytes) -> None:
    """Spoil a file."""
    path.write_bytes(content)
