"""Seeded defects in the store in Kubernetes: ends of leases, and the order of writes."""

from mutants.defect import Defect
from mutants.operators import drop, swap, without

LEASES = ("test_kubernetes_leases",)

KUBERNETES = (
    Defect(
        "claim-without-the-mark",
        "KubernetesStore._end_if_over",
        drop("ended_lease"),
        "after a pause, a member decides although another member claimed its RM",
        (*LEASES, "test_kubernetes_races"),
    ),
    Defect(
        "absent-is-gone",
        "KubernetesStore._end_if_over",
        drop("is_over"),
        "a claim takes the RM of a member whose Lease was deleted by hand, or was renewed meanwhile",
        LEASES,
    ),
    Defect(
        "outages-count",
        "Sightings.see",
        without("_gap"),
        "after an outage of the API server, members consider each other dead",
        LEASES,
    ),
    Defect(
        "renewals-are-alike",
        "objects:_metadata",
        swap("uuid4 ( ) . hex", '""'),
        "a renewal while the wall clock stands still changes nothing, and the lease expires",
        LEASES,
    ),
    Defect(
        "updates-that-create",
        "objects:replaced_by",
        swap('"uid" : uid', '"generation" : 1'),
        "a renewal of a deleted Lease creates it, and its member decides beside the new owner",
        LEASES,
    ),
    Defect(
        "conflict-with-oneself",
        "KubernetesStore._put",
        swap("!=", "is not"),
        "a write repeated by HTTP is reported as a conflict",
        LEASES,
    ),
    Defect(
        "throttled-writes-fail",
        "Api._refused",
        swap("throttled or", "False or"),
        "a write refused because of throttling is not tried again",
        ("test_kubernetes_faults",),
    ),
)
