"""``confirm [APP...]``: the RM has stopped what it was told to, of these applications or of all.

Then the core decides. Unlike ``release`` it needs no list of keys.
"""

from licorne_core.messages.commands import TerminationType
from licorne_core.model.apps.requests import Request, RequestState
from licorne_core.values.ids import PartitionName
from scenarios.stage import Line, Stage
from support.core.builders import release, releases


def run(stage: Stage, line: Line) -> list[str]:
    """Confirm each stop that the RM was told of, in one request."""
    name = PartitionName(f"[{stage.rm}]{line.take('partition', 'default')}")
    partition = stage.driver.scheduler.partitions[name]
    stopped = [
        release(app.app_id, request.key, why=why)
        for app in partition.applications.values()
        if not line.words or app.app_id in line.words
        for request in app.requests.values()
        if (why := _reason(request)) is not None
    ]
    return stage.told(stage.driver.do(releases(*stopped, rm=stage.rm)))


def _reason(request: Request) -> TerminationType | None:
    """What the RM was told when it was to stop the request; None if it was not told."""
    if request.state is RequestState.PREEMPTING:
        return TerminationType.PREEMPTED_BY_SCHEDULER
    if request.state is not RequestState.RELEASING:
        return None
    replaced = request.partner is not None
    return TerminationType.PLACEHOLDER_REPLACED if replaced else TerminationType.TIMEOUT
