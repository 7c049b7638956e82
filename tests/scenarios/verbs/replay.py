"""``replay begin`` and ``replay end [nodes=N] [apps=N] [asks=N]``: around all that an RM has."""

from licorne_core.messages.commands import BeginReplay, EndReplay
from licorne_core.values.ids import RmId
from scenarios.stage import Line, Stage


def run(stage: Stage, line: Line) -> list[str]:
    """Begin or end a replay."""
    rm_id = RmId(stage.rm)
    if line.words == ["begin"]:
        return stage.told(stage.driver.send(BeginReplay(rm_id=rm_id)))
    end = EndReplay(
        rm_id=rm_id,
        nodes=int(line.take("nodes", "0")),
        applications=int(line.take("apps", "0")),
        allocations=int(line.take("asks", "0")),
    )
    return stage.told(stage.driver.send(end))
