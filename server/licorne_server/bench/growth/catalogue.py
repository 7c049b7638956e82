"""All dimensions, in the order in which they are measured."""

from licorne_server.bench.growth import of_apps, of_cluster, of_queues, of_rms, of_watchers
from licorne_server.bench.growth.dimension import Dimension, built

TENS = (10, 100, 1_000)
HUNDREDS = (100, 1_000, 10_000)

ALL = (
    Dimension(
        name="asks",
        about="asks of one application",
        sizes=(1_000, 10_000, 100_000),
        measure=built(of_apps.asks),
    ),
    Dimension(
        name="apps-fifo",
        about="applications in one leaf, in fifo order",
        sizes=HUNDREDS,
        measure=built(of_apps.applications("fifo")),
    ),
    Dimension(
        name="apps-fair",
        about="applications in one leaf that shares out evenly",
        sizes=HUNDREDS,
        measure=built(of_apps.applications("fair")),
    ),
    Dimension(
        name="queues",
        about="leaves below root",
        sizes=(20, 200, 2_000),
        measure=built(of_queues.flat),
    ),
    Dimension(
        name="dynamic",
        about="leaves made by placement",
        sizes=(20, 200, 2_000),
        measure=built(of_queues.dynamic),
    ),
    Dimension(
        name="namespaces",
        about="namespaces with a queue and a quota each",
        sizes=(20, 200, 2_000),
        measure=built(of_queues.namespaces),
    ),
    Dimension(
        name="depth",
        about="levels of queues, one below the other",
        sizes=(1, 3, 10),
        measure=built(of_queues.chain),
    ),
    Dimension(
        name="tree",
        about="levels of queues, two below each: 2, 8 and 1,024 leaves",
        sizes=(1, 3, 10),
        measure=built(of_queues.tree),
    ),
    Dimension(
        name="users",
        about="users with a limit each",
        sizes=HUNDREDS,
        measure=built(of_apps.users),
    ),
    Dimension(
        name="groups",
        about="groups with a limit each",
        sizes=HUNDREDS,
        measure=built(of_apps.groups),
    ),
    Dimension(
        name="nodes",
        about="nodes with room",
        sizes=(200, 2_000, 20_000),
        measure=built(of_cluster.nodes),
    ),
    Dimension(
        name="types",
        about="types of resources in asks and nodes",
        sizes=(2, 4, 16),
        measure=built(of_apps.resource_types),
    ),
    Dimension(
        name="sizes",
        about="distinct sizes of asks that fit",
        sizes=HUNDREDS,
        measure=built(of_apps.distinct_sizes),
    ),
    Dimension(
        name="waiting",
        about="sizes that wait while one allocation after the other is released",
        sizes=(1, 10, 1_000),
        measure=built(of_cluster.waiting_sizes, of_cluster.release_each),
    ),
    Dimension(
        name="unplaceable",
        about="sizes that fit nowhere, ahead of those that fit",
        sizes=(10, 100, 5_000),
        measure=built(of_cluster.unplaceable),
        work=1_000,
    ),
    Dimension(
        name="reservations",
        about="nodes reserved for large asks",
        sizes=(50, 500, 5_000),
        measure=built(of_cluster.reservations),
    ),
    Dimension(
        name="predicates",
        about="predicate classes that the RM is asked about",
        sizes=TENS,
        measure=built(of_rms.predicate_classes),
    ),
    Dimension(
        name="priorities",
        about="priorities in one application",
        sizes=HUNDREDS,
        measure=built(of_apps.priorities),
    ),
    Dimension(
        name="gangs",
        about="gangs of 10: placeholders, then what replaces them",
        sizes=TENS,
        measure=built(of_rms.gangs, of_rms.come_together),
    ),
    Dimension(
        name="members",
        about="members of each of 10 gangs",
        sizes=TENS,
        measure=built(of_rms.members, of_rms.come_together),
    ),
    Dimension(
        name="idle-rms",
        about="other RMs that have nothing to do",
        sizes=TENS,
        measure=built(of_rms.idle_rms),
    ),
    Dimension(
        name="watchers",
        about="watchers of events; it is the whole server that is measured",
        sizes=(1, 10, 100),
        measure=of_watchers.watchers,
        work=2_000,
        note="Each event goes to each watcher, so what grows is what is written to them.",
    ),
)

DIMENSIONS = {dimension.name: dimension for dimension in ALL}
