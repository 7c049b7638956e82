"""The verbs by which time passes in a scenario."""

from licorne_core.messages.commands import Tick
from licorne_core.messages.effects import Effect
from licorne_core.values.slices import Tuning
from scenarios.stage import Line, Stage
from support.core.driver import Driver


def run(stage: Stage, line: Line) -> list[str]:
    """``run [DECISIONS]``: the core decides until it is idle, or one turn with this many decisions."""
    if line.words:
        return stage.send(Tick(decisions=int(line.words[0])))
    return stage.told(stage.driver.run())


def wait(stage: Stage, line: Line) -> list[str]:
    """``wait SECONDS``: time passes, from deadline to deadline."""
    return stage.told(stage.driver.wait(float(line.words[0])))


def rest(stage: Stage, line: Line) -> list[str]:
    """``rest [all]``: one more slice of the begun command, or all remaining ones."""
    effects: list[Effect] = []
    while stage.rest is not None:
        effects += stage.driver.begin(stage.rest)
        stage.rest, stage.driver.rest = stage.driver.rest, None
        if line.words != ["all"]:
            break
    return [*stage.told(effects), *(["there is more"] if stage.rest is not None else [])]


def slices(stage: Stage, line: Line) -> list[str]:
    """``slices N``: use a new core whose slices of large commands have N steps."""
    (size,) = line.words
    stage.driver = Driver(tuning=Tuning(slice_size=int(size)))
    return []
