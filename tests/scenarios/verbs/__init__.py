"""What a scenario can say, one verb a module."""

from scenarios.stage import Verb
from scenarios.verbs import (
    applications,
    apps,
    asks,
    events,
    explain,
    fleet,
    node,
    nodes,
    queues,
    release,
    reload,
    remove,
    replay,
    rm,
    run,
    wait,
)

VERBS: dict[str, Verb] = {
    "applications": applications.run,
    "apps": apps.run,
    "asks": asks.run,
    "events": events.run,
    "explain": explain.run,
    "fleet": fleet.run,
    "node": node.run,
    "nodes": nodes.run,
    "queues": queues.run,
    "release": release.run,
    "reload": reload.run,
    "remove": remove.run,
    "replay": replay.run,
    "rm": rm.run,
    "run": run.run,
    "wait": wait.run,
}
