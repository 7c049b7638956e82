"""``release APP [KEY...] [why=TYPE]``: the RM lets allocations or asks go; all without a key."""

from licorne_core.messages.commands import TerminationType
from scenarios.stage import Line, Stage
from support.core.builders import release, releases


def run(stage: Stage, line: Line) -> list[str]:
    """Release keys of one application."""
    app_id, *gone = line.words
    why, partition = TerminationType[line.take("why", "STOPPED_BY_RM")], line.take("partition")
    wanted = [release(app_id, key, why=why, partition=partition) for key in gone or [""]]
    return stage.told(stage.driver.send(releases(*wanted, rm=stage.rm)))
