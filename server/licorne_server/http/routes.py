"""The REST reads under ``/ws/v1`` (spec § 12.4): paths, their parameters, and their answers."""

import asyncio
from functools import partial

from aiohttp import web

from licorne_core.values.app_states import AppState
from licorne_core.values.errors import NotFound
from licorne_core.views.partitions import RmReport
from licorne_server.http import json_apps, json_cluster, json_config
from licorne_server.http.places import added_up, in_one_list
from licorne_server.http.stream import JsonObject, Rows, reader_of, send_bytes, send_json
from licorne_server.http.units import Asked, Merge, Read, in_slice, rm_asked
from licorne_server.store.configurations.thread import VALIDATION, Origin

APP_STATES = ("active", "rejected", "completed")
_STATUSES = frozenset(state.value.lower() for state in AppState)
BODY_SECONDS = 15.0
"""Seconds within which a request's body has to arrive."""

PARTITION = "/ws/v1/partition/{partition:[^/]+}"
_QUEUE = PARTITION + "/queue/{queue:[^/]+}"


def routes() -> list[web.RouteDef]:
    """All paths; those of GET answer HEAD as well."""
    return [
        *(web.get(path, in_slice(read, MERGED.get(path))) for path, read in READS.items()),
        web.get("/ws/v1/config", config),
        web.post("/ws/v1/validate-conf", validate),
    ]


def _queue(asked: Asked) -> JsonObject:
    """A queue; with all queues below it if `subtree` is in the query."""
    whole = "subtree" in asked.request.query
    shape = json_cluster.queue_tree if whole else json_cluster.single_queue
    return shape(asked.views, asked.partition, asked.queue())


def _applications(asked: Asked) -> Rows:
    """Applications of a partition or a leaf; the active ones if the path names no state."""
    queue = asked.queue() if "queue" in asked.request.match_info else ""
    state = asked.request.match_info.get("state", "active").lower()
    status = asked.query("status").lower()
    if state not in APP_STATES:
        raise web.HTTPBadRequest(text=f"application state {state!r} is none of {', '.join(APP_STATES)}")
    if status and status not in _STATUSES:
        raise web.HTTPBadRequest(text=f"status {status!r} is none of {', '.join(sorted(_STATUSES))}")
    return json_apps.applications(asked.views, asked.partition, queue=queue, state=state, status=status)


def _application(asked: Asked) -> JsonObject:
    """An application in a partition, or in one of its queues."""
    views, name = asked.views, asked.name("app")
    queue = asked.queue() if "queue" in asked.request.match_info else ""
    if queue:
        views.queue(asked.partition, queue)
    report = views.application(asked.partition, name)
    if queue and report.queue != queue:
        raise NotFound(f"application {report.app_id} is not in queue {queue}")
    return json_apps.application_json(views, name, report)


READS: dict[str, Read] = {
    "/ws/v1/clusters": lambda asked: json_cluster.clusters(
        asked.views, asked.sources.started_time, asked.views.partition_names()
    ),
    "/ws/v1/partitions": lambda asked: json_cluster.partitions(asked.views, asked.views.partition_names()),
    f"{PARTITION}/placementrules": lambda asked: json_cluster.placement_rules(
        asked.views.placement(asked.partition)
    ),
    f"{PARTITION}/queues": lambda asked: json_cluster.queue_tree(asked.views, asked.partition),
    _QUEUE: _queue,
    f"{PARTITION}/preemptions": lambda asked: json_cluster.preemptions(
        asked.views, asked.partition, asked.query("applicationID"), asked.query("allocationKey")
    ),
    **{f"{PARTITION}/{path}": partial(json_cluster.listed, path) for path in json_cluster.LISTS},
    f"{PARTITION}/nodes": lambda asked: json_apps.nodes(asked.views, asked.partition),
    f"{PARTITION}/node/{{node:[^/]+}}": lambda asked: json_apps.single_node(
        asked.views, asked.partition, asked.name("node")
    ),
    f"{_QUEUE}/applications": _applications,
    f"{_QUEUE}/applications/{{state:[^/]+}}": _applications,
    f"{_QUEUE}/application/{{app:[^/]+}}": _application,
    f"{PARTITION}/applications/{{state:[^/]+}}": _applications,
    f"{PARTITION}/application/{{app:[^/]+}}": _application,
    f"{PARTITION}/usage/users": lambda asked: json_cluster.usages(asked, "user"),
    f"{PARTITION}/usage/user/{{name:[^/]+}}": lambda asked: json_cluster.usage(asked, "user"),
    f"{PARTITION}/usage/groups": lambda asked: json_cluster.usages(asked, "group"),
    f"{PARTITION}/usage/group/{{name:[^/]+}}": lambda asked: json_cluster.usage(asked, "group"),
    "/ws/v1/history/apps": lambda asked: json_cluster.history_of_applications(asked.sources.history),
    "/ws/v1/history/containers": lambda asked: json_cluster.history_of_containers(asked.sources.history),
    "/ws/v1/scheduler/node-utilizations": lambda asked: json_cluster.node_utilizations(asked.views),
}
"""Reads by path. Answers show the current state of the core."""


MERGED: dict[str, Merge] = {
    "/ws/v1/clusters": in_one_list,
    "/ws/v1/partitions": in_one_list,
    "/ws/v1/scheduler/node-utilizations": in_one_list,
    "/ws/v1/history/apps": partial(added_up, "totalApplications"),
    "/ws/v1/history/containers": partial(added_up, "totalContainers"),
}
"""Reads whose answers have parts of all members."""


async def config(request: web.Request) -> web.StreamResponse:
    """The running configuration of the RM in `rm`, or otherwise of the RM that registered first."""
    asked = Asked(request)
    rm, thread, origin = _rm(asked), asked.sources.config_thread, Origin(reader_of(request))
    if "application/json" in request.headers.get("Accept", ""):
        shown = await thread.run(origin, partial(json_config.config_json, rm))
        return await send_bytes(request, "application/json; charset=utf-8", shown.encode())
    text = await thread.run(origin, partial(json_config.config_yaml, rm))
    return await send_bytes(request, "application/x-yaml; charset=utf-8", text.encode())


def _rm(asked: Asked) -> RmReport:
    rm_id = rm_asked(asked.request)
    if rm_id:
        return asked.views.rm(rm_id)
    rms = asked.views.rms()
    if not rms:
        raise NotFound("no RM is registered, so no configuration is running")
    return rms[0]


async def validate(request: web.Request) -> web.StreamResponse:
    """Check the configuration in the body; nothing is changed (spec § 13.2)."""
    try:
        async with asyncio.timeout(BODY_SECONDS):
            body = await request.read()
    except TimeoutError as error:
        text = f"the request's body took longer than {BODY_SECONDS:g} s"
        raise web.HTTPRequestTimeout(text=text) from error
    thread, origin = Asked(request).sources.config_thread, Origin(reader_of(request), VALIDATION)
    verdict = await thread.run(origin, partial(json_config.validation, body), len(body))
    return await send_json(request, verdict)
