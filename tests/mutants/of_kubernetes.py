"""The store in Kubernetes: ends of leases, and the order of writes."""

from mutants.defect import Defect
from mutants.operators import drop, swap, without

LEASES = ("test_kubernetes_leases",)

KUBERNETES = (
    Defect(
        "claim-without-the-mark",
        "KubernetesStore._end_if_over",
        drop("ended_lease"),
        "a member that comes back after a pause decides beside the one that took its RM",
        (*LEASES, "test_kubernetes_races"),
    ),
    Defect(
        "absent-is-gone",
        "KubernetesStore._end_if_over",
        drop("is_over"),
        "a claim takes the RM of a member whose Lease somebody has deleted, or that renews",
        LEASES,
    ),
    Defect(
        "outages-count",
        "Sightings.see",
        without("_gap"),
        "after an outage of the API server every member takes the others for gone",
        LEASES,
    ),
    Defect(
        "renewals-are-alike",
        "objects:_metadata",
        swap("uuid4 ( ) . hex", '""'),
        "a renewal while the wall clock stands still changes nothing, and the lease ends",
        LEASES,
    ),
    Defect(
        "updates-that-create",
        "objects:replaced_by",
        swap('"uid" : uid', '"generation" : 1'),
        "a renewal of a Lease that is gone creates it, and its member decides beside the new owner",
        LEASES,
    ),
    Defect(
        "conflict-with-oneself",
        "KubernetesStore._put",
        swap("!=", "is not"),
        "a write that HTTP has repeated is told as a conflict",
        LEASES,
    ),
    Defect(
        "throttled-writes-fail",
        "Api._refused",
        swap("throttled or", "False or"),
        "a write that was refused for a second is not tried again",
        ("test_kubernetes_faults",),
    ),
)
