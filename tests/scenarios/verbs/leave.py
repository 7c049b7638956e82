"""``leave``: the RM is gone for good."""

from licorne_core.messages.commands import RemoveRm
from licorne_core.values.ids import RmId
from scenarios.stage import Line, Stage


def run(stage: Stage, _: Line) -> list[str]:
    """Forget the RM."""
    return stage.told(stage.driver.send(RemoveRm(rm_id=RmId(stage.rm))))
