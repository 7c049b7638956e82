"""The journal for the commands of pages."""

from pathlib import Path

from support.core.builders import app, apps, ask, asks, config, node, nodes, register
from support.server.recorded_run import RecordedRun

RM = "batch"
BEGIN = 1_790_000_000.0
BEHIND = 99
"""The number of the run, which is above those of any server there."""


def write_journal(folder: Path) -> None:
    """A run in which the ask ``pod-7`` waits, and another configuration for its RM."""
    run = RecordedRun(start=BEGIN)
    run.at(BEGIN, register(config("[{name: a}]"), RM), nodes(node("n1", vcore=1), rm=RM))
    run.at(BEGIN, apps(app("train", "root.a"), rm=RM), asks(ask("train", "pod-7", vcore=2), rm=RM))
    run.at(BEGIN + 100, nodes(node("n2", vcore=1), rm=RM))
    run.save(folder / "journal", BEHIND)
    (folder / "new.yaml").write_text(config("[{name: a}, {name: b}]"), encoding="utf-8")
