"""Seeded defects in the store in etcd: leases, claims, and the contents of a snapshot."""

from mutants.defect import Defect
from mutants.operators import drop, returns, swap, without

CONTRACT = ("test_store_contract",)

ETCD = (
    Defect(
        "claim-without-a-lease",
        "EtcdStore.claim",
        without("_is_mine"),
        "a member whose lease has expired claims RMs",
        CONTRACT,
    ),
    Defect(
        "claim-from-the-living",
        "EtcdStore.claim",
        drop("gone"),
        "an RM is claimed from a live member",
        CONTRACT,
        nth=2,
    ),
    Defect(
        "handed-to-the-dead",
        "EtcdStore.claim",
        drop("lives"),
        "an RM is handed over to a dead member, and is not served",
        CONTRACT,
        nth=3,
    ),
    Defect(
        "renewed-by-a-deposed-leader",
        "EtcdStore._renewed",
        returns("True"),
        "a renewal that the next leader of etcd does not know is accepted",
        ("test_etcd",),
    ),
    Defect(
        "writes-are-repeated",
        "TXN",
        swap("False", "True"),
        "a successful claim is repeated at another server, and reported as a conflict",
        ("test_etcd_failures",),
    ),
    Defect(
        "pages-of-several-moments",
        "SnapshotReader.read",
        drop("revision"),
        "a snapshot has owners from before and after a change",
        ("test_etcd",),
        nth=1,
        slow=True,
    ),
    Defect(
        "revisions-tell-all",
        "_Stored.is_still",
        returns("same"),
        "values of a wiped store are taken for the former values",
        ("test_etcd_failures",),
    ),
    Defect(
        "trust-in-the-watch-of-etcd",
        "_Watching.wait",
        swap("seconds", "None"),
        "a change that the watch does not report is never detected",
        ("coordination/test_etcd",),
        nth=2,
    ),
    Defect(
        "epoch-of-the-store-alone",
        "records:claimed",
        swap("epoch , at_least", "epoch, 0"),
        "after a restore, the store gives epochs that RMs reject",
        ("test_records", *CONTRACT),
    ),
    Defect(
        "a-full-store-ends-leases",
        "EtcdStore._publish",
        swap("refused . code is not StatusCode . RESOURCE_EXHAUSTED", "True"),
        "all members stop deciding when etcd is full",
        ("test_etcd_failures::test_a_full_etcd_keeps_leases",),
    ),
    Defect(
        "a-full-store-is-not-told",
        "Lease._extend",
        swap("self . _store . trouble", "''"),
        "health is reported as good while RMs cannot get another owner",
        ("coordination/test_lease",),
    ),
)
