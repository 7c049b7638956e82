"""Details of one object for the page, and the heat map of all nodes of a partition."""

from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Iterator
from contextlib import suppress
from functools import partial
from time import monotonic

from aiohttp import web
from google.protobuf.json_format import MessageToDict

from licorne_core.messages.preemption import PreemptionRecord
from licorne_core.values.errors import NotFound, shown
from licorne_core.values.ids import NodeId, PartitionName, rm_of
from licorne_core.values.resources import Resources
from licorne_core.views import Views
from licorne_core.views.fields import renamed
from licorne_core.views.nodes import NodeReport
from licorne_server.http import json_apps, json_cluster
from licorne_server.http.identity import visible_to
from licorne_server.http.pages import API, Maker, number, text_in
from licorne_server.http.stream import (
    JsonObject,
    Rows,
    Together,
    encode,
    object_of,
    send_bytes,
    send_json,
    slice_for,
    text_of,
)
from licorne_server.http.ui.feed import PEER
from licorne_server.http.ui.rows import application_detail, heat_row, preemption_row, usage_detail
from licorne_server.http.units import Asked, mark_json, milliseconds
from licorne_server.process.fair import TimeSlices
from licorne_server.reads.explaining import explain_message
from licorne_server.reads.sources import Sources
from licorne_server.store.configurations.revisions import Revision, Revisions
from licorne_server.wire.features import names

MAX_RESOURCES = 8
"""Maximum number of resources that a heat map shows."""

MAX_ATTRIBUTES = 200
"""Maximum number of names of attributes that are examined for groups of nodes."""

MAX_GROUPS = 64
"""Maximum number of values of an attribute by which nodes can be grouped."""

FIRST = ("vcore", "memory")
"""Resources that are shown first."""


class Heats:
    """The heat maps of partitions. Each is cached for a time that depends on its cost (`Maker.refresh`)."""

    def __init__(self, views: Views, time_slices: TimeSlices) -> None:
        """Make heat maps of the partitions of `views`, in time slices."""
        self._views = views
        self._time_slices = time_slices
        self._together = Together[bytes]()

    async def of(self, partition: PartitionName, by: str) -> bytes:
        """The heat map of a partition, grouped by an attribute unless it is empty; cached while it is fresh.

        The time slices are charged to a separate peer, so that the first caller is not charged for others.
        """
        return await self._together.get((partition, by), partial(self._make, partition, by))

    async def _make(self, partition: PartitionName, by: str) -> tuple[bytes, float]:
        maker = Maker(self._time_slices, f"{PEER} of {rm_of(partition)}")
        capacity = await maker.once(lambda: self._views.partition(partition).capacity)
        names = self._views.node_ids_in_order(partition)
        resources = _shown(capacity)
        groups = Groups(by)
        cells = await maker.all(_cells(self._views, partition, names, resources, groups))
        found: JsonObject = {"resources": resources, "refresh": maker.refresh}
        head = encode({**found, "attributes": groups.attributes(), "groups": groups.groups})[:-1]
        body = f'{head},"nodes":[{",".join(cells)}]}}'
        return body.encode(errors="replace"), monotonic() + maker.refresh / 1000


class Groups:
    """Groups of nodes by an attribute, and the attributes by which nodes can be grouped."""

    def __init__(self, by: str) -> None:
        """Group by the attribute `by`; empty if there is none."""
        self.groups: list[str] = []
        """The values of the attribute, in order of appearance; an empty one for nodes without it."""
        self._by = by
        self._indexes: dict[str, int] = {}
        self._nodes = 0
        self._counts: Counter[str] = Counter()
        self._values: dict[str, set[str]] = {}

    def add(self, node: NodeReport) -> list[int]:
        """Record a node; returns the index of its group, if nodes are grouped."""
        self._nodes += 1
        for name, value in node.attributes.items():
            values = self._values.get(name)
            if values is None:
                if len(self._values) >= MAX_ATTRIBUTES:
                    continue
                values = self._values[name] = set()
            self._counts[name] += 1
            if len(values) <= MAX_GROUPS:
                values.add(value)
        if not self._by:
            return []
        value = node.attributes.get(self._by, "")
        index = self._indexes.get(value)
        if index is None:
            index = self._indexes[value] = len(self.groups)
            self.groups.append(value)
        return [index]

    def attributes(self) -> list[str]:
        """The attributes by which nodes can be grouped: most nodes have them, and they have a few values."""
        return sorted(
            name
            for name, values in self._values.items()
            if 1 < len(values) <= MAX_GROUPS and 2 * self._counts[name] > self._nodes
        )


def _cells(
    views: Views,
    partition: PartitionName,
    names: Iterable[NodeId | None],
    resources: tuple[str, ...],
    groups: Groups,
) -> Iterator[str | None]:
    """The cells of a map as JSON, one node at a time; each ends with the index of its group."""
    for name in names:
        cell = None
        if name is not None:
            with suppress(NotFound):
                node = views.node(partition, name)
                cell = encode([*heat_row(node, resources), *groups.add(node)])
        yield cell


def _shown(capacity: Resources) -> tuple[str, ...]:
    """The displayed resources of a partition."""
    first = [name for name in FIRST if name in capacity]
    return (*first, *sorted(capacity.keys() - set(first)))[:MAX_RESOURCES]


_extended: Callable[[NodeReport], JsonObject] = renamed(NodeReport, names("NODE_ON_PAGE"), {}, dict)


def node_detail(views: Views, partition: PartitionName, name: str) -> JsonObject:
    """A node in its REST form, but with the times of operators in milliseconds."""
    node = views.node(partition, name)
    cordon = {"cordon": mark_json(node.closed, milliseconds)}
    return {**json_apps.single_node(views, partition, name), **cordon, **_extended(node)}


def queue_detail(views: Views, partition: PartitionName, path: str) -> JsonObject:
    """A queue in its REST form, but with the time of the operator that stopped it in milliseconds."""
    stop = mark_json(views.queue(partition, path).stop, milliseconds)
    return {**json_cluster.single_queue(views, partition, path), "stop": stop}


def in_rest_form(
    form: Callable[[Views, PartitionName, str], JsonObject], part: str
) -> Callable[[web.Request], Awaitable[web.StreamResponse]]:
    """The handler for one object in its REST form; `part` of the path has its name."""

    async def handler(request: web.Request) -> web.StreamResponse:
        asked, maker = Asked(request), Maker.of(request)
        shown = await maker.once(partial(form, asked.views, asked.partition, asked.name(part)))
        return await maker.send(request, shown)

    return handler


async def application(request: web.Request) -> web.StreamResponse:
    """An application without its asks and allocations."""
    asked, maker = Asked(request), Maker.of(request)
    views, partition, app = asked.views, asked.partition, asked.name("app")
    report = await maker.once(lambda: views.application(partition, app))
    obstacle = await maker.once(lambda: views.first_obstacle(partition, app))
    text = await maker.once(lambda: views.obstacle_text(partition, app, obstacle.key, obstacle.code))
    detail = application_detail(app, report, obstacle, text, views.reservations_of(partition, app))
    return await maker.send(request, detail)


async def explain(request: web.Request) -> web.StreamResponse:
    """Explanation of an ask: `State.Explain` under its JSON names; `key` names the ask."""
    asked, maker = Asked(request), Maker.of(request)
    views, partition = asked.views, asked.partition
    [report] = await maker.all(views.explain(partition, asked.name("app"), asked.query("key")))
    message = explain_message(report, visible_to(request))
    for explained in asked.sources.explained:
        await maker.all(explained(partition, message, asked.sources.now()))
    shown = MessageToDict(message, always_print_fields_with_no_presence=True)
    record = views.preemption(partition, report.app_id, report.key)
    if report.is_victim and record is not None:
        shown["victim"] = preemption_row(record)
    return await maker.send(request, {**shown, "node": report.node_id})


async def usage(request: web.Request) -> web.StreamResponse:
    """A user or group, queue by queue."""
    asked, maker = Asked(request), Maker.of(request)
    steps = asked.views.usage(asked.partition, asked.name("kind"), asked.name("name"))
    [report] = await maker.all(steps)
    return await maker.send(request, usage_detail(report))


async def heat(heats: Heats, request: web.Request) -> web.StreamResponse:
    """All nodes in short form, grouped `by` an attribute. All viewers get one answer while it is fresh."""
    body = await heats.of(Asked(request).partition, text_in(request, "by"))
    return await send_bytes(request, "application/json; charset=utf-8", body)


async def preemption_sums(request: web.Request) -> web.StreamResponse:
    """The recorded victims, by their queue and the queue for which they were stopped."""
    asked, maker = Asked(request), Maker.of(request)
    sums = Losses()
    await maker.all(sums.steps(asked.views.preemptions(asked.partition)))
    since = sums.since or asked.sources.now()
    return await maker.send(request, {"since": milliseconds(since), "rows": Rows(sums.rows())})


class Losses:
    """Sums of victims by pairs of queues."""

    def __init__(self) -> None:
        """Start without victims."""
        self.since = 0.0
        """Time of the oldest victim, in unix seconds; 0.0 if there is none."""
        self._victims: Counter[tuple[str, str]] = Counter()
        self._amounts: dict[tuple[str, str], dict[str, int]] = {}
        # Amounts multiplied by the seconds that victims had run.
        self._lost: dict[tuple[str, str], dict[str, float]] = {}

    def steps(self, records: Iterable[PreemptionRecord]) -> Iterator[None]:
        """Add records, the latest first; the reader may pause at every step."""
        for record in records:
            self.since = record.time
            beneficiary = record.beneficiary_queue
            pair = record.victim_queue.path, "" if beneficiary is None else beneficiary.path
            self._victims[pair] += 1
            amounts, lost = self._amounts.setdefault(pair, {}), self._lost.setdefault(pair, {})
            for name, amount in record.resources.items():
                amounts[name] = amounts.get(name, 0) + amount
                lost[name] = lost.get(name, 0.0) + amount * record.ran
            yield

    def rows(self) -> Iterator[JsonObject]:
        """The sums, most victims first."""
        for pair, count in self._victims.most_common():
            yield {
                "queue": pair[0],
                "forQueue": pair[1],
                "victims": count,
                "resources": self._amounts[pair],
                "lostHours": {name: round(amount / 3600, 3) for name, amount in self._lost[pair].items()},
            }


async def config_revisions(request: web.Request) -> web.StreamResponse:
    """The retained configurations of an RM, the latest first."""
    asked = Asked(request)
    rm_id = asked.views.rm(asked.query("rm")).rm_id
    found = asked.sources.revisions(rm_id) or Revisions(rm_id=rm_id)

    def row(revision: Revision) -> JsonObject:
        return {
            "revision": revision.number,
            "time": revision.time // 1_000_000,
            "by": revision.by,
            "message": revision.comment,
            "source": revision.source.value,
            "checksum": revision.checksum,
            "current": revision is found.current,
        }

    return await send_json(request, Rows(reversed(found.kept), row))


async def config_revision(request: web.Request) -> web.StreamResponse:
    """The text of the configuration with the number `revision`; without it, of the configuration in force."""
    asked = Asked(request)
    rm = asked.views.rm(asked.query("rm"))
    found = asked.sources.revisions(rm.rm_id)
    in_force = 0 if found is None or not found.kept else found.current.number
    wanted = number(request, "revision", in_force)
    checksum, text = rm.checksum, rm.config
    if wanted != in_force:
        revision = None if found is None else found.find(wanted)
        if revision is None:
            raise NotFound(f"revision {wanted} of RM {shown(rm.rm_id)} is not kept")
        checksum, text = revision.checksum, revision.text
    answer: JsonObject = {"rm": rm.rm_id, "revision": wanted, "checksum": checksum}
    return await send_json(request, {**answer, "text": text_of(text)})


async def config(request: web.Request) -> web.StreamResponse:
    """The running configuration of an RM in its submitted form, with comments."""
    asked = Asked(request)
    async with slice_for(request):
        rm = asked.views.rm(asked.query("rm"))
    extra, text = object_of(rm.extra_config.items()), text_of(rm.config)
    answer: JsonObject = {"rm": rm.rm_id, "checksum": rm.checksum, "extra": extra, "text": text}
    return await send_json(request, answer)


def routes(sources: Sources) -> list[web.RouteDef]:
    """All paths."""
    partition = API + "/partition/{partition:[^/]+}"
    return [
        web.get(partition + "/queue/{queue:[^/]+}", in_rest_form(queue_detail, "queue")),
        web.get(partition + "/application/{app:[^/]+}", application),
        web.get(partition + "/application/{app:[^/]+}/explain", explain),
        web.get(partition + "/node/{node:[^/]+}", in_rest_form(node_detail, "node")),
        web.get(partition + "/heat", partial(heat, Heats(sources.views, sources.time_slices))),
        web.get(partition + "/usage/{kind:user|group}/{name:[^/]+}", usage),
        web.get(partition + "/preemptions/sums", preemption_sums),
        web.get(API + "/config", config),
        web.get(API + "/config/revisions", config_revisions),
        web.get(API + "/config/revision", config_revision),
    ]
