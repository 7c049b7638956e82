"""``applications [partition=P]``: all that are there, with state and usage."""

from licorne_core.values.ids import PartitionName
from scenarios.printing import amounts
from scenarios.stage import Line, Stage


def run(stage: Stage, line: Line) -> list[str]:
    """Print the active applications of a partition."""
    name = PartitionName(f"[{stage.rm}]{line.take('partition', 'default')}")
    return [
        f"{app.app_id} in {app.queue} {app.state}: has {amounts(app.allocated)}, "
        f"waits for {amounts(app.pending)}"
        for app in stage.driver.views.applications(name)
    ]
