"""Records of preemption, as a ledger has them."""

from licorne_core.scheduling.preemption.ledger import PreemptionRecord, PreemptionRule, QueueNumbers
from licorne_core.values.ids import AllocationKey, AppId, NodeId, QueuePath

TIME = 1_700_000_000.0


def numbers(path: str, *, vcore: int = 100) -> QueueNumbers:
    """A queue of which all amounts differ."""
    return QueueNumbers(
        path=QueuePath(path),
        guaranteed={"vcore": vcore},
        max={"vcore": vcore + 1},
        allocated={"vcore": vcore + 2},
        preempting={"vcore": vcore + 3},
        promised={"vcore": vcore + 4},
    )


def victim(
    key: str,
    app_id: str = "low",
    *,
    rule: PreemptionRule = PreemptionRule.GUARANTEE,
    time: float = TIME,
    released: float = 0.0,
) -> PreemptionRecord:
    """A victim in `root.low` on node `n1`, for the ask `k` of `app` in `root.high`."""
    for_ask = rule is not PreemptionRule.QUOTA
    return PreemptionRecord(
        app_id=AppId(app_id),
        key=AllocationKey(key),
        node_id=NodeId("n1"),
        resources={"vcore": 7},
        priority=-3,
        time=time,
        rule=rule,
        victim_queue=numbers("root.low"),
        beneficiary_app_id=AppId("app" if for_ask else ""),
        beneficiary_key=AllocationKey("k" if for_ask else ""),
        beneficiary_priority=9 if for_ask else 0,
        beneficiary_queue=numbers("root.high" if for_ask else "root", vcore=200),
        released_time=released,
    )
