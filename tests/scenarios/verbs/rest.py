"""``rest [all]``: one more slice of the command that was begun, or all that is left of it."""

from licorne_core.messages.effects import Effect
from scenarios.stage import Line, Stage


def run(stage: Stage, line: Line) -> list[str]:
    """Carry on."""
    effects: list[Effect] = []
    while stage.rest is not None:
        effects += stage.driver.begin(stage.rest)
        stage.rest, stage.driver.rest = stage.driver.rest, None
        if line.words != ["all"]:
            break
    return [*stage.told(effects), *(["there is more"] if stage.rest is not None else [])]
