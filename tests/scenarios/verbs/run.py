"""``run [DECISIONS]``: the core decides until it rests, or takes one turn of so many decisions."""

from licorne_core.messages.commands import Tick
from scenarios.stage import Line, Stage


def run(stage: Stage, line: Line) -> list[str]:
    """Let the core decide."""
    if line.words:
        return stage.told(stage.driver.send(Tick(decisions=int(line.words[0]))))
    return stage.told(stage.driver.run())
