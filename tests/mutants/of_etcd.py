"""The store in etcd: leases, claims, and the contents of a snapshot."""

from mutants.defect import Defect
from mutants.operators import drop, returns, swap, without

CONTRACT = ("test_store_contract",)

ETCD = (
    Defect(
        "claim-without-a-lease",
        "EtcdStore.claim",
        without("_is_mine"),
        "a member whose lease has ended takes RMs",
        CONTRACT,
    ),
    Defect(
        "claim-from-the-living",
        "EtcdStore.claim",
        drop("gone"),
        "an RM is taken from a member that lives",
        CONTRACT,
        nth=2,
    ),
    Defect(
        "handed-to-the-dead",
        "EtcdStore.claim",
        drop("lives"),
        "an RM is handed to a member that has gone, and nobody serves it",
        CONTRACT,
        nth=3,
    ),
    Defect(
        "renewed-by-a-deposed-leader",
        "EtcdStore._renewed",
        returns("True"),
        "a renewal counts that the next leader of etcd does not know of",
        ("test_etcd",),
    ),
    Defect(
        "writes-are-repeated",
        "TXN",
        swap("False", "True"),
        "a claim that was carried out is repeated at another server, and told as a conflict",
        ("test_etcd_failures",),
    ),
    Defect(
        "pages-of-several-moments",
        "SnapshotReader.read",
        drop("revision"),
        "a snapshot has the owner of before a change beside the one of after it",
        ("test_etcd",),
        nth=1,
        slow=True,
    ),
    Defect(
        "revisions-tell-all",
        "_Stored.is_still",
        returns("same"),
        "values of a store that was wiped are taken for those of before",
        ("test_etcd_failures",),
    ),
    Defect(
        "trust-in-the-watch-of-etcd",
        "_Watching.wait",
        swap("seconds", "None"),
        "a change that the watch does not tell of is never seen",
        ("coordination/test_etcd",),
        nth=2,
    ),
    Defect(
        "epoch-of-the-store-alone",
        "records:claimed",
        swap("epoch , at_least", "epoch, 0"),
        "a store that was restored gives epochs that RMs drop",
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
        "health is well while no RM can get another owner",
        ("coordination/test_lease",),
    ),
)
