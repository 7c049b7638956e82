"""The chart on a control plane: rendered, applied like by a user, and the account that it creates."""

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import yaml

from licorne_tools.kube.api import Json
from licorne_tools.kube.plane import Plane, write_kubeconfig
from licorne_tools.kube.programs import KUBECTL, built
from support.deployment import Objects, objects, template
from support.patience import PATIENCE

RESTRICTED = {f"pod-security.kubernetes.io/{what}": "restricted" for what in ("enforce", "warn")}
"""Labels of a namespace in which pods are restricted, with a warning for whoever applies others."""

ACCOUNT = "licorne"
"""The name of the account that the chart creates."""

OWNED = ("ServiceAccount", "Role", "RoleBinding")


def rendered(namespace: str, *arguments: str | Path) -> Objects:
    """The chart, rendered for a namespace by Helm, which `make lint-deploy` installs."""
    return objects(template("--namespace", namespace, *arguments))


async def kubectl(plane: Plane, *arguments: str | Path, given: str = "") -> str:
    """Run kubectl as the administrator; return its output. A warning of the API server is an error."""
    program = (await asyncio.to_thread(built, [KUBECTL]))[KUBECTL]
    process = await asyncio.create_subprocess_exec(
        *(program, "--warnings-as-errors", *arguments),
        env={**os.environ, "KUBECONFIG": str(plane.kubeconfig), "HOME": str(plane.folder)},
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    async with asyncio.timeout(PATIENCE):
        out, _ = await process.communicate(given.encode())
    assert process.returncode == 0, out.decode()
    return out.decode()


async def apply(plane: Plane, namespace: str, found: Objects) -> list[str]:
    """Apply objects in a namespace; return kubectl's output for each."""
    text = yaml.safe_dump_all(found)
    out = await kubectl(plane, "apply", "--namespace", namespace, "--filename", "-", given=text)
    return out.splitlines()


@asynccontextmanager
async def restricted_namespace(plane: Plane, name: str) -> AsyncIterator[str]:
    """A namespace for restricted pods, which is deleted with its pods at the end of the block."""
    metadata: Json = {"name": name, "labels": RESTRICTED}
    await plane.api.create("/api/v1/namespaces", {"metadata": metadata})
    try:
        yield name
    finally:
        await plane.api.delete(f"/api/v1/namespaces/{name}")


async def token_of(plane: Plane, namespace: str, account: str = ACCOUNT) -> str:
    """A token of an account, like that of a pod."""
    path = f"/api/v1/namespaces/{namespace}/serviceaccounts/{account}/token"
    asked: Json = {"spec": {"expirationSeconds": 3600}}
    token = (await plane.api.create(path, asked))["status"]["token"]
    assert isinstance(token, str)
    return token


async def account_of_members(plane: Plane, namespace: str, folder: Path) -> Path:
    """Create the account of members in a namespace, with the rights of the chart; return its kubeconfig."""
    found = rendered(namespace, "--set", "replicas=2", "--set", "persistence.enabled=false")
    await apply(plane, namespace, [one for one in found if one["kind"] in OWNED])
    token = await token_of(plane, namespace)
    return write_kubeconfig(folder / "kubeconfig", plane.url, plane.authority, ACCOUNT, token)
