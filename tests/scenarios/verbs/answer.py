"""``answer CHECK [NODE=REASON...]``: the RM refuses these nodes, and accepts the others."""

from licorne_core.messages.commands import AnswerPredicates, NodeRefusal, PredicateAnswer
from licorne_core.values.ids import NodeId, RmId
from scenarios.stage import Line, Stage


def run(stage: Stage, line: Line) -> list[str]:
    """Answer one predicate check, and let the core come to rest."""
    (number,) = line.words
    refused = [NodeRefusal(node_id=NodeId(n), reason=why) for n, why in line.settings.items()]
    command = AnswerPredicates(rm_id=RmId(stage.rm), answers=[PredicateAnswer(int(number), refused)])
    return stage.told(stage.driver.do(command))
