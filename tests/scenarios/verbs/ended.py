"""``ended``: applications that were rejected or are completed, as long as they are kept."""

from licorne_core.values.ids import PartitionName
from scenarios.stage import Line, Stage


def run(stage: Stage, line: Line) -> list[str]:
    """Print those that are not there any more."""
    name = PartitionName(f"[{stage.rm}]{line.take('partition', 'default')}")
    return [
        f"{app.app_id} {app.state}{f': {app.message}' if app.message else ''}"
        for state in ("rejected", "completed")
        for app in stage.driver.views.applications(name, state=state)
    ]
