"""``victims CHECK [NODE=POSITION...]``: on these nodes the victims up to there have to go.

Positions count from 0 in the order of the check, -1 for none; other nodes are refused.
"""

from licorne_core.messages.commands import AnswerPreemptions, PreemptionAnswer
from licorne_core.values.ids import NodeId, RmId
from scenarios.stage import Line, Stage


def run(stage: Stage, line: Line) -> list[str]:
    """Answer one preemption check, and let the core come to rest."""
    (number,) = line.words
    needed = {NodeId(node): int(position) for node, position in line.settings.items()}
    command = AnswerPreemptions(rm_id=RmId(stage.rm), answers=[PreemptionAnswer(int(number), needed)])
    return stage.told(stage.driver.do(command))
