"""The etcd of a control plane, by hand."""

import json

import aiohttp

from licorne_tools.kube.plane import Plane


async def compact(plane: Plane) -> None:
    """Compact etcd's history: watches and pages from before end with 410."""
    async with aiohttp.ClientSession(f"{plane.etcd}/v3/kv/", raise_for_status=True) as session:
        async with session.post("range", data=json.dumps({"key": "AA=="})) as answer:
            revision = (await answer.json(content_type=None))["header"]["revision"]
        async with session.post("compaction", data=json.dumps({"revision": revision, "physical": True})):
            pass
