"""A control plane on free loopback ports: etcd, API server, controllers, and KWOK in place of kubelets.

The API server has its default admission plugins and RBAC. Its administrator has a token. KWOK reports nodes
as ready, and bound pods as running.
"""

import asyncio
import json
import os
import secrets
import ssl
import subprocess
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, aclosing, asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

import aiohttp

from licorne_tools.bench.driver import BenchError, Progress
from licorne_tools.bench.etcd import free_ports
from licorne_tools.kube.api import Api, api
from licorne_tools.kube.processes import Processes, Program
from licorne_tools.kube.programs import API_SERVER, CONTROLLERS, ETCD, KWOK, built

MEMORY = Path("/dev/shm")
"""A folder whose files are never written to a disk, because etcd waits for its disk at each change."""
STAGES = Path(__file__).with_name("stages.yml")
ADMIN = "admin"
NODE = {"cpu": "32", "memory": "256Gi", "pods": "110"}
"""The default capacity of a node."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlaneOptions:
    """Options of a control plane.

    Attributes:
        flags: additional flags of programs, by their names.
        tokens: user and group of additional callers, by token.
        controllers: False to run only etcd and the API server, without controllers and KWOK.
    """

    flags: Mapping[str, Sequence[str]] = field(default_factory=dict)
    tokens: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    controllers: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Plane:
    """A running control plane.

    Attributes:
        folder: the folder of files and logs, which is removed at the end.
        url: the address of the API server.
        kubeconfig: the kubeconfig of the administrator.
        authority: the file of the CA that verifies the API server's certificate.
        token: the token of the administrator.
        etcd: `http://HOST:PORT` of etcd.
        api: a client of the administrator.
        processes: the programs of the control plane, and all other programs that are started for it.
    """

    folder: Path
    url: str
    kubeconfig: Path
    authority: Path
    token: str
    etcd: str
    api: Api
    processes: Processes

    async def add_nodes(self, number: int, *, first: int = 0, capacity: Mapping[str, str] = NODE) -> None:
        """Add nodes `node-00000` and so on, and wait until the last of them is ready.

        Raises:
            BenchError: the API server refuses a node.
        """
        names = [f"node-{index:05d}" for index in range(first, first + number)]
        for start in range(0, number, 64):
            await asyncio.gather(*(self._add_node(name, capacity) for name in names[start : start + 64]))
        if names:
            await self._until_ready(set(names))

    async def _add_node(self, name: str, capacity: Mapping[str, str]) -> None:
        await self.api.create("/api/v1/nodes", node(name))
        status = {"status": {"capacity": dict(capacity), "allocatable": dict(capacity)}}
        await self.api.patch(f"/api/v1/nodes/{name}/status", status)

    async def _until_ready(self, names: set[str]) -> None:
        """Wait until all these nodes are ready and without the taint of new nodes."""
        async with aclosing(self.api.watch("/api/v1/nodes")) as changes:
            async for _, found in changes:
                conditions = {one["type"]: one["status"] for one in found["status"].get("conditions", ())}
                if conditions.get("Ready") == "True" and not found["spec"].get("taints"):
                    names.discard(found["metadata"]["name"])
                if not names:
                    return


@asynccontextmanager
async def running_plane(
    options: PlaneOptions | None = None, progress: Progress | None = None
) -> AsyncIterator[Plane]:
    """Start a control plane for the duration of the block, and build programs that are not cached.

    Raises:
        BenchError: a program is missing, cannot be built, or does not start.
    """
    options = options or PlaneOptions()
    names = (API_SERVER, CONTROLLERS, KWOK) if options.controllers else (API_SERVER,)
    programs = await asyncio.to_thread(built, names, progress)
    parent = MEMORY if os.access(MEMORY, os.W_OK) else None
    async with AsyncExitStack() as stack:
        folder = Path(stack.enter_context(TemporaryDirectory(prefix="licorne-kube-", dir=parent)))
        processes = Processes(folder)
        stack.push_async_callback(processes.close)
        peer, client, port = free_ports(3)
        token, url, etcd = secrets.token_hex(16), f"https://127.0.0.1:{port}", f"http://127.0.0.1:{client}"
        await processes.start(_etcd(folder, etcd, peer))
        _write_secrets(folder, token, options.tokens)
        await processes.start(_api_server(folder, programs[API_SERVER], etcd, port, options))
        authority = folder / "certs/apiserver.crt"
        plane = Plane(
            folder=folder,
            url=url,
            kubeconfig=write_kubeconfig(folder / "kubeconfig", url, authority, ADMIN, token),
            authority=authority,
            token=token,
            etcd=etcd,
            api=await stack.enter_async_context(api(url, authority, token)),
            processes=processes,
        )
        if options.controllers:
            for program in _controllers(plane, programs, options):
                await processes.start(program)
        yield plane


def _etcd(folder: Path, url: str, peer: int) -> Program:
    command = [
        ETCD,
        f"--data-dir={folder / 'etcd'}",
        f"--listen-client-urls={url}",
        f"--advertise-client-urls={url}",
        f"--listen-peer-urls=http://127.0.0.1:{peer}",
        f"--initial-advertise-peer-urls=http://127.0.0.1:{peer}",
        f"--initial-cluster=default=http://127.0.0.1:{peer}",
        "--logger=zap",
        "--log-level=warn",
    ]
    return Program(ETCD, command, partial(says, f"{url}/health", '"true"'))


def _api_server(folder: Path, program: Path, etcd: str, port: int, options: PlaneOptions) -> Program:
    command = [
        str(program),
        f"--etcd-servers={etcd}",
        f"--secure-port={port}",
        "--bind-address=127.0.0.1",
        f"--cert-dir={folder / 'certs'}",
        "--service-account-issuer=https://kubernetes.default.svc",
        f"--service-account-key-file={folder / 'accounts.key'}",
        f"--service-account-signing-key-file={folder / 'accounts.key'}",
        "--service-cluster-ip-range=10.0.0.0/24",
        "--authorization-mode=Node,RBAC",
        f"--token-auth-file={folder / 'tokens.csv'}",
        "--allow-privileged",
        # Streamed lists need a newer etcd than Debian's, and clients would retry them forever.
        "--feature-gates=WatchList=false",
        *options.flags.get(API_SERVER, ()),
    ]
    return Program(API_SERVER, command, partial(says, f"https://127.0.0.1:{port}/readyz", "ok"))


def _controllers(plane: Plane, programs: Mapping[str, Path], options: PlaneOptions) -> list[Program]:
    manager = [
        str(programs[CONTROLLERS]),
        f"--kubeconfig={plane.kubeconfig}",
        f"--service-account-private-key-file={plane.folder / 'accounts.key'}",
        f"--root-ca-file={plane.authority}",
        "--use-service-account-credentials",
        "--leader-elect=false",
        "--secure-port=0",
        "--kube-api-qps=500",
        "--kube-api-burst=1000",
        *options.flags.get(CONTROLLERS, ()),
    ]
    kwok = [
        str(programs[KWOK]),
        f"--kubeconfig={plane.kubeconfig}",
        f"--config={STAGES}",
        "--manage-all-nodes",
        "--node-lease-duration-seconds=120",
        *options.flags.get(KWOK, ()),
    ]
    # A namespace accepts pods once the controllers have created its default service account.
    account = partial(_is_there, plane.api, "/api/v1/namespaces/default/serviceaccounts/default")
    return [Program(CONTROLLERS, manager, account), Program(KWOK, kwok, _at_once)]


async def _at_once() -> bool:
    return True


async def _is_there(client: Api, path: str) -> bool:
    try:
        await client.get(path)
    except BenchError:
        return False
    return True


async def says(url: str, text: str) -> bool:
    """True if the page at `url` contains `text`; the server's certificate is not verified."""
    anybody = ssl.create_default_context()
    anybody.check_hostname, anybody.verify_mode = False, ssl.CERT_NONE
    try:
        async with aiohttp.ClientSession() as session, session.get(url, ssl=anybody) as answer:
            return answer.status == 200 and text in await answer.text()
    except (OSError, aiohttp.ClientError):
        return False


def node(name: str, **labels: str) -> dict[str, object]:
    """A node that KWOK keeps ready."""
    return {
        "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name, **labels}},
        "spec": {},
    }


def _write_secrets(folder: Path, token: str, others: Mapping[str, tuple[str, str]]) -> None:
    """Write the key of service accounts, and the callers' tokens."""
    key = folder / "accounts.key"
    subprocess.run(
        ["openssl", "genpkey", "-algorithm", "RSA", "-pkeyopt", "rsa_keygen_bits:2048", "-out", str(key)],
        check=True,
        capture_output=True,
    )
    lines = [f"{token},{ADMIN},{ADMIN},system:masters"]
    lines += [f"{one},{user},{user},{group}" for one, (user, group) in others.items()]
    tokens = folder / "tokens.csv"
    tokens.touch(mode=0o600)
    tokens.write_text("\n".join(lines) + "\n")


def write_kubeconfig(path: Path, url: str, authority: Path, user: str, token: str) -> Path:
    """Write a kubeconfig of one user with a token; returns its path."""
    document = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "local", "cluster": {"server": url, "certificate-authority": str(authority)}}],
        "users": [{"name": user, "user": {"token": token}}],
        "contexts": [{"name": "local", "context": {"cluster": "local", "user": user}}],
        "current-context": "local",
    }
    path.touch(mode=0o600)
    path.write_text(json.dumps(document, indent=2))
    return path
