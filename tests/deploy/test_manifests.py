"""The plain manifests start a safe server at the ports that they name."""

import asyncio
import json
import re
import ssl
import sys
from collections.abc import AsyncIterator, Iterator, Mapping
from pathlib import Path
from typing import Any

import aiohttp
import pytest
import pytest_asyncio
import yaml

from licorne import Client, TlsConfig
from licorne_core.config import load
from support.deployment import (
    CHART,
    PLAIN,
    SETTINGS,
    core,
    objects,
    only,
    pod,
    service,
    settings,
    settings_text,
    unmounted,
)
from support.docs.pages import ROOT
from support.patience import PATIENCE

FOUND = objects((PLAIN / "licorne.yaml").read_text("utf-8"))


def test_arguments_are_valid(tmp_path: Path) -> None:
    """The server's own command accepts the arguments: TLS, client authorities, and plain HTTP for metrics."""
    read = settings(FOUND, tmp_path)
    assert read.tls is not None
    assert read.tls.client_ca is not None
    assert read.http_tls is not None
    assert read.metrics_tls is None
    assert not read.insecure
    assert read.watch_config


def test_ports_are_those_of_the_server(tmp_path: Path) -> None:
    """Container, service and probes name the ports of the arguments, and the scheme is right."""
    read = settings(FOUND, tmp_path)
    assert read.http is not None
    assert read.metrics is not None
    listening = {"grpc": read.listen.port, "http": read.http.port, "metrics": read.metrics.port}
    assert {port["name"]: port["containerPort"] for port in core(FOUND)["ports"]} == listening
    served = service(FOUND)["spec"]
    assert {port["targetPort"] for port in served["ports"]} == set(listening)
    labels = only(FOUND, "StatefulSet")["spec"]["template"]["metadata"]["labels"]
    assert served["selector"].items() <= labels.items()
    for probe, path in (("livenessProbe", "/livez"), ("readinessProbe", "/readyz")):
        assert core(FOUND)[probe]["httpGet"] == {"path": path, "port": "http", "scheme": "HTTPS"}


def test_the_pod_has_a_name() -> None:
    """The service of the stateful set selects the pod and has no address, as Kubernetes requires."""
    wanted = only(FOUND, "StatefulSet")["spec"]
    own = only(FOUND, "Service", wanted["serviceName"])["spec"]
    assert own == {"clusterIP": "None", "selector": wanted["selector"]["matchLabels"]}


def test_files_are_mounted(tmp_path: Path) -> None:
    """Each file of the arguments is in a volume of the pod, and only state and /tmp are written."""
    container = core(FOUND)
    mounted = {mount["mountPath"]: mount for mount in container["volumeMounts"]}
    claims = only(FOUND, "StatefulSet")["spec"]["volumeClaimTemplates"]
    volumes = {volume["name"] for volume in pod(FOUND)["volumes"]}
    volumes |= {claim["metadata"]["name"] for claim in claims}
    assert {mount["name"] for mount in mounted.values()} == volumes
    assert not unmounted(FOUND)
    writable = {path for path, mount in mounted.items() if not mount.get("readOnly")}
    assert writable == {str(settings(FOUND, tmp_path).state_dir), "/tmp"}
    # A file that is mounted by itself, without its folder, would never get a change.
    assert not any("subPath" in mount for mount in mounted.values())


def test_the_pod_is_confined() -> None:
    """The pod has no root, no privileges, no token of an account, and a limit of memory."""
    spec, container = pod(FOUND), core(FOUND)
    assert spec["securityContext"]["runAsNonRoot"] is True
    assert spec["securityContext"]["runAsUser"] == 10001
    assert spec["automountServiceAccountToken"] is False
    assert only(FOUND, "ServiceAccount")["automountServiceAccountToken"] is False
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    resources = container["resources"]
    assert resources["limits"]["memory"] == resources["requests"]["memory"]
    assert only(FOUND, "StatefulSet")["spec"]["replicas"] == 1


def test_the_image_has_the_version_of_the_server() -> None:
    """The chart, the manifests and the source are of one version."""
    pyproject = (ROOT / "pyproject.toml").read_text("utf-8")
    version = yaml.safe_load((CHART / "Chart.yaml").read_text())["appVersion"]
    assert f'version = "{version}"' in pyproject
    assert core(FOUND)["image"] == f"licorne:{version}"
    assert f'newTag: "{version}"' in (PLAIN / "kustomization.yaml").read_text()


def test_the_queues_of_the_chart_are_valid() -> None:
    """The queues of the chart are valid without a warning."""
    text = only(FOUND, "ConfigMap", "licorne")["data"]["queues.yaml"]
    assert load(text, strict=True).warnings == ()


def test_every_value_is_in_the_schema() -> None:
    """Every value is in the schema, and the file of values has every key of it."""
    schema = json.loads((CHART / "values.schema.json").read_text())
    values = yaml.safe_load((CHART / "values.yaml").read_text())
    known = dict(leaves(schema, schema["definitions"]))
    # Helm adds this key for a chart that is a part of another one.
    assert known.pop("global")
    for path, default in known.items():
        value = values
        for key in path.split("."):
            assert key in value, path
            value = value[key]
        if isinstance(value, Mapping) and default.get("additionalProperties") is False:
            assert value.keys() == default["properties"].keys(), path


def leaves(schema: Mapping[str, Any], named: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """Every path of a schema, with its description."""
    for key, value in schema.get("properties", {}).items():
        reference = value.get("$ref", "").removeprefix("#/definitions/")
        said = named[reference] if reference else value
        yield key, said
        if said.get("additionalProperties") is False:
            yield from ((f"{key}.{path}", below) for path, below in leaves(said, named))


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def started(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[dict[str, str]]:
    """The pod's command on loopback, with certificates as in a secret, and its addresses."""
    folder = tmp_path_factory.mktemp("pod")
    made = await asyncio.create_subprocess_exec(
        *("sh", ROOT / "deploy/certificates.sh", folder, "licorne", "batch"),
        stdout=asyncio.subprocess.DEVNULL,
    )
    assert await made.wait() == 0
    for source, key in (
        ("licorne.pem", "tls.crt"),
        ("licorne.key", "tls.key"),
        ("ca.pem", "ca.crt"),
    ):
        (folder / key).write_bytes((folder / source).read_bytes())
    (folder / "queues.yaml").write_text(only(FOUND, "ConfigMap", "licorne")["data"]["queues.yaml"])
    here = re.sub('"0.0.0.0:.*?"', '"127.0.0.1:0"', settings_text(FOUND))
    here = here.replace("/var/lib/licorne", str(folder / "state"))
    here = re.sub('"/etc/licorne/.*?/', f'"{folder}/', here)
    (folder / "licorne.toml").write_text(here)
    words = [word.replace(SETTINGS, str(folder / "licorne.toml")) for word in core(FOUND)["args"]]
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "licorne_server", *words),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
    )
    assert process.stdout is not None
    try:
        async with asyncio.timeout(PATIENCE):
            line = (await process.stdout.readline()).decode()
        yield {"folder": str(folder), **dict(word.split("=") for word in line.split()[1:])}
    finally:
        process.terminate()
        async with asyncio.timeout(PATIENCE):
            assert await process.wait() == 0


@pytest.mark.asyncio(loop_scope="module")
@pytest.mark.needs("openssl")
async def test_probes_and_scrapes_are_answered(started: dict[str, str]) -> None:
    """A kubelet without a certificate, and a scraper over plain HTTP, get answers."""
    unchecked = ssl.create_default_context()
    unchecked.check_hostname = False
    unchecked.verify_mode = ssl.CERT_NONE
    connector = aiohttp.TCPConnector(ssl=unchecked)
    async with aiohttp.ClientSession(connector=connector) as client:
        for path in ("/livez", "/readyz"):
            async with client.get(f"https://{started['http']}{path}") as answer:
                assert answer.status == 200
        async with client.get(f"https://{started['http']}/ws/v1/partitions") as answer:
            assert answer.status == 403
        async with client.get(f"http://{started['metrics']}/metrics") as answer:
            assert "\nlicorne_ready 1" in await answer.text()


@pytest.mark.asyncio(loop_scope="module")
@pytest.mark.needs("openssl")
async def test_rms_are_identified_by_their_certificates(started: dict[str, str]) -> None:
    """An RM with a certificate of the secret's authority gets the queues of the config map."""
    folder = Path(started["folder"])
    tls = TlsConfig(
        ca=folder / "ca.crt",
        certificate=folder / "batch.pem",
        key=folder / "batch.key",
        server_name="licorne",
    )
    async with asyncio.timeout(PATIENCE), Client(started["grpc"], rm_id="batch", tls=tls) as rm:
        await rm.ready()
        assert rm.stats.replayed == 1
