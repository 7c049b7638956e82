"""``preempted [APP] [partition=P]``: the ledger of victims, oldest first."""

from licorne_core.scheduling.preemption.ledger import PreemptionRecord, QueueNumbers
from licorne_core.values.ids import PartitionName
from scenarios.printing import amounts, maximum
from scenarios.stage import Line, Stage


def run(stage: Stage, line: Line) -> list[str]:
    """Print who had to go, for whom, and what both queues had then."""
    name = PartitionName(f"[{stage.rm}]{line.take('partition', 'default')}")
    partition = stage.driver.scheduler.partitions[name]
    records = [*partition.ledger.latest(*line.words)]
    return [text for record in reversed(records) for text in _shown(record)]


def _shown(record: PreemptionRecord) -> list[str]:
    said = [f"{record.app_id}/{record.key} on {record.node_id}"]
    if record.beneficiary_key:
        said.append(f"for {record.beneficiary_app_id}/{record.beneficiary_key}")
    went = f"gone after {record.released_time - record.time:g} s"
    said += [record.rule, went if record.released_time else "not gone yet"]
    lines = [", ".join(said), f"  from {_numbers(record.victim_queue)}"]
    if record.beneficiary_queue is not None:
        lines.append(f"  for {_numbers(record.beneficiary_queue)}")
    return lines


def _numbers(queue: QueueNumbers) -> str:
    return (
        f"{queue.path}: has {amounts(queue.allocated)}, guaranteed {amounts(queue.guaranteed)}, "
        f"max {maximum(queue.max)}, preempting {amounts(queue.preempting)}, "
        f"promised {amounts(queue.promised)}"
    )
