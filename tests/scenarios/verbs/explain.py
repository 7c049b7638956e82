"""``explain APP KEY [partition=P]``: why an ask is where it is."""

from licorne_core.values.ids import PartitionName
from scenarios.stage import Line, Stage
from support.core.steps import last


def run(stage: Stage, line: Line) -> list[str]:
    """Print the verdict and every check."""
    name = PartitionName(f"[{stage.rm}]{line.take('partition', 'default')}")
    app_id, key = line.words
    explanation = last(stage.driver.views.explain(name, app_id, key))
    marks = ((" ok " if check.passed else "STOP", check.message()) for check in explanation.checks)
    return [
        f"{explanation.verdict}: {explanation.summary}",
        *(f"[{mark}] {message}" for mark, message in marks),
    ]
