"""The chart with Helm: linted, rendered for every example, and checked against Kubernetes' types."""

import json
import re
import shutil
import subprocess
import tarfile
from pathlib import Path
from urllib.parse import urlsplit

import pytest
import yaml

from licorne_server.commands.settings.kinds import SWITCH
from licorne_server.commands.settings.tables import KEYS
from support.deployment import (
    CHART,
    EXAMPLES,
    PLAIN,
    PROMETHEUS,
    WITH_IMAGE,
    check,
    core,
    dashboard,
    helm,
    objects,
    only,
    pod,
    service,
    settings,
    template,
    unmounted,
)
from support.docs.pages import ROOT
from support.patience import PATIENCE

pytestmark = pytest.mark.helm

WAYS = [pytest.param(None, id="default"), *(pytest.param(file, id=file.stem) for file in EXAMPLES)]
MUTUAL = "tls.clientAuthority="
NO_VOLUME = "persistence.enabled=false"


def values(file: Path | None) -> tuple[str | Path, ...]:
    """The arguments that name a file of values."""
    return WITH_IMAGE if file is None else ("--values", file)


@pytest.mark.parametrize("file", WAYS)
def test_lint_has_no_findings(file: Path | None) -> None:
    """Helm's own linter has no warning."""
    done = helm("lint", "--strict", CHART, *values(file))
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("file", WAYS)
def test_objects_are_valid_for_kubernetes(file: Path | None, tmp_path: Path) -> None:
    """Every field is one that its kind has, with a value of its type."""
    made = tmp_path / "made.yaml"
    made.write_text(template(*values(file)))
    done = check("kubernetes", made)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("file", WAYS)
def test_the_server_accepts_its_arguments(file: Path | None, tmp_path: Path) -> None:
    """The real command accepts the arguments; ports, probes and volumes match them."""
    found = objects(template(*values(file)))
    read = settings(found, tmp_path)
    assert read.http is not None
    scheme = "HTTPS" if read.http_tls else "HTTP"
    assert core(found)["livenessProbe"]["httpGet"]["scheme"] == scheme
    assert core(found)["readinessProbe"]["httpGet"]["scheme"] == scheme
    named = {port["name"] for one in pod(found)["containers"] for port in one.get("ports", ())}
    targets = {port["targetPort"] for port in service(found)["spec"]["ports"]}
    assert targets == named
    mounted = {mount["name"] for mount in core(found)["volumeMounts"]}
    claims = only(found, "StatefulSet")["spec"].get("volumeClaimTemplates", ())
    assert mounted == {one["name"] for one in pod(found)["volumes"]} | {
        claim["metadata"]["name"] for claim in claims
    }
    assert not unmounted(found)
    assert all(one["securityContext"]["readOnlyRootFilesystem"] for one in pod(found)["containers"])


def test_the_core_beside_a_shim_is_on_loopback(tmp_path: Path) -> None:
    """Beside the shim gRPC is on loopback, and the account is the shim's own, or a named one."""
    example = values(CHART.parent / "examples/shim.yaml")
    found = objects(template(*example))
    assert settings(found, tmp_path).listen.is_loopback
    assert pod(found)["automountServiceAccountToken"] is True
    own = {one["metadata"]["name"] for one in found if one["kind"] == "ServiceAccount"}
    assert own == {pod(found)["serviceAccountName"]}
    bound = [one for one in found if one["kind"] in ("RoleBinding", "ClusterRoleBinding")]
    assert {one["name"] for each in bound for one in each["subjects"]} == own
    named = objects(template(*example, "--set", "shim.serviceAccountName=others"))
    assert pod(named)["serviceAccountName"] == "others"
    assert not [one for one in named if one["kind"] in ("ServiceAccount", "ClusterRole", "Role")]
    shim = next(one for one in pod(found)["containers"] if one["name"] == "shim")
    assert {"name": "LICORNE_TARGET", "value": "127.0.0.1:7070"} in shim["env"]


def test_identities_of_clients_are_passed_on(tmp_path: Path) -> None:
    """Names of certificates and tokens reach the server as they are in the values."""
    folder = CHART.parent / "examples"
    certificates = settings(objects(template(*values(folder / "monitoring.yaml"))), tmp_path)
    assert certificates.rm_identities["services"] == {"services.example", "services-2.example"}
    assert certificates.operators == {"operator.example"}
    tokens = settings(objects(template(*values(folder / "tokens.yaml"))), tmp_path)
    assert [path.name for path in tokens.rm_tokens["services"]] == ["services", "services-next"]
    assert [path.name for path in tokens.operator_tokens] == ["operator"]
    page = settings(objects(template(*values(folder / "page.yaml"))), tmp_path)
    assert [path.name for path in page.viewer_tokens] == ["viewer"]
    viewers = settings(objects(template(*values(folder / "gateway.yaml"))), tmp_path)
    assert viewers.viewers == {"auditor.example"}


def test_an_image_that_is_not_pulled_needs_no_name() -> None:
    """Without a pull the image is the one that is built here."""
    never = helm("template", "licorne", CHART, "--set", "image.pullPolicy=Never")
    assert never.returncode == 0, never.stderr
    assert core(objects(never.stdout))["image"] == core(objects(template()))["image"] == "licorne:0.1.0"


def test_kind_gets_the_image_that_the_chart_wants(tmp_path: Path) -> None:
    """`make image-load` builds and loads the image that the chart names; without kind it prints so."""

    def load(*options: str, path: str) -> subprocess.CompletedProcess[str]:
        command = [str(shutil.which("make")), *options, "image-load", "BASE=base@sha256:0"]
        return subprocess.run(
            command,
            cwd=ROOT,
            env={"PATH": path},
            text=True,
            capture_output=True,
            check=False,
            timeout=PATIENCE,
        )

    dry = load("--dry-run", path="/usr/bin:/bin").stdout
    image = core(objects(template()))["image"]
    assert f"deploy/image/build.sh 'base@sha256:0' '{image}' docker\n" in dry
    assert f"kind load docker-image {image} --name 'kind'" in dry
    for program in ("sh", "make", "sed"):
        (tmp_path / program).symlink_to(str(shutil.which(program)))
    done = load(path=str(tmp_path))
    assert done.returncode != 0
    assert "kind is not installed" in done.stderr


def test_mounted_certificates_are_issued() -> None:
    """cert-manager makes the server's secret with all names, and one for each client, of one authority."""
    found = objects(template(*values(CHART.parent / "examples/page.yaml")))
    made = {one["metadata"]["name"]: one["spec"] for one in found if one["kind"] == "Certificate"}
    assert made.keys() == {"licorne", "licorne-ca", "licorne-client-batch", "licorne-client-ann"}
    server = made["licorne"]
    mounted = next(one for one in pod(found)["volumes"] if one["name"] == "tls")
    assert server["secretName"] == mounted["secret"]["secretName"]
    assert {"licorne", "licorne.licorne", "licorne.licorne.svc"} <= set(server["dnsNames"])
    assert made["licorne-client-ann"]["dnsNames"] == ["ann"]
    authority = only(found, "Issuer", "licorne-ca")
    assert authority["spec"]["ca"]["secretName"] == made["licorne-ca"]["secretName"]
    for name in ("licorne", "licorne-client-batch", "licorne-client-ann"):
        assert made[name]["issuerRef"] == {"kind": "Issuer", "name": "licorne-ca"}


def test_an_issuer_of_the_cluster_replaces_the_authority() -> None:
    """The named issuer signs the certificates; members get the names that they advertise."""
    found = objects(template(*values(CHART.parent / "examples/gateway.yaml")))
    assert not [one for one in found if one["kind"] == "Issuer"]
    server = only(found, "Certificate")["spec"]
    assert server["issuerRef"] == {"kind": "ClusterIssuer", "name": "cluster-ca"}
    assert {"*.licorne-headless.licorne.svc", "licorne.example"} <= set(server["dnsNames"])


def test_the_page_has_a_host_name() -> None:
    """An Ingress, or a route of a gateway, leads to the HTTP port of the service."""
    page = objects(template(*values(CHART.parent / "examples/page.yaml")))
    [rule] = only(page, "Ingress")["spec"]["rules"]
    [path] = rule["http"]["paths"]
    backend = path["backend"]["service"]
    assert (rule["host"], backend["name"]) == ("licorne.example", service(page)["metadata"]["name"])
    assert backend["port"]["name"] in {port["name"] for port in service(page)["spec"]["ports"]}
    gateway = objects(template(*values(CHART.parent / "examples/gateway.yaml")))
    assert not [one for one in gateway if one["kind"] == "Ingress"]
    route = only(gateway, "HTTPRoute")["spec"]
    assert route["parentRefs"] == [{"name": "public", "namespace": "gateways", "sectionName": "https"}]
    [[backend]] = [rule["backendRefs"] for rule in route["rules"]]
    ports = {port["name"]: port["port"] for port in service(gateway)["spec"]["ports"]}
    assert backend == {"name": service(gateway)["metadata"]["name"], "port": ports["http"]}


def test_the_collector_of_traces_is_reachable(tmp_path: Path) -> None:
    """The core may call the configured collector, and without one no host."""
    found = objects(template(*values(CHART.parent / "examples/monitoring.yaml")))
    traces = settings(found, tmp_path).traces
    assert traces is not None
    rules = only(found, "NetworkPolicy")["spec"]["egress"]
    allowed = {port["port"] for rule in rules for port in rule["ports"]}
    assert urlsplit(traces.endpoint).port in allowed
    assert [one["name"] for one in core(found)["env"]] == ["OTEL_RESOURCE_ATTRIBUTES"]
    closed = objects(template("--set", "networkPolicy.enabled=true"))
    assert only(closed, "NetworkPolicy")["spec"]["egress"] == []
    assert "env" not in core(closed)


def test_monitoring_equals_that_of_the_repository() -> None:
    """Alerts and dashboard have other links only, and the job has the alerts' name."""
    found = objects(template(*values(CHART.parent / "examples/monitoring.yaml")))
    rules = yaml.safe_load(
        (PROMETHEUS / "alerts.yml")
        .read_text("utf-8")
        .replace("docs/runbooks.md#", "https://wiki.example/licorne/runbooks#")
    )
    assert only(found, "PrometheusRule")["spec"] == rules
    shown = only(found, "ConfigMap", "licorne-dashboard")
    links = {"page": "https://licorne.example/ui", "runbooks": "https://wiki.example/licorne/runbooks"}
    drawn = json.dumps(dashboard())
    for one in dashboard()["templating"]["list"]:
        if one["name"] in links:
            drawn = drawn.replace(one["query"], links[one["name"]])
    assert json.loads(shown["data"]["licorne.json"]) == json.loads(drawn)
    monitor = only(found, "ServiceMonitor")["spec"]
    served = service(found)
    assert monitor["selector"]["matchLabels"].items() <= served["metadata"]["labels"].items()
    assert served["metadata"]["labels"][monitor["jobLabel"]] == "licorne"
    [endpoint] = monitor["endpoints"]
    assert endpoint["port"] in {port["name"] for port in served["spec"]["ports"]}
    assert endpoint["scheme"] == "http"


@pytest.mark.parametrize(
    ("sets", "message"),
    [
        (("tls.secretName=",), "give a secret with a certificate, or say insecure: true"),
        (("operators={me}", MUTUAL), "they need tls.clientAuthority"),
        (("operators={me}", "insecure=true"), "they need tls.clientAuthority"),
        (("tokens.operators={a}",), "set tls.clientAuthority to an empty text"),
        (("tokens.operators={a}", MUTUAL), "tokens.secretName: the secret with the tokens"),
        (("tokens.operators={a}", "tokens.secretName=t", MUTUAL), "set metrics.insecure to false"),
        (("web.enabled=true",), "say http.insecure: true"),
        (("shim.enabled=true",), "shim.image: an image with licorne-k8shim"),
        (("replicas=3",), "set persistence.enabled to false"),
        (("replicas=3", NO_VOLUME, "serviceAccount.create=false"), "serviceAccount.name: members need"),
        (("replicas=3", NO_VOLUME, "terminationGracePeriodSeconds=10"), "gives its RMs away"),
        (
            ("replicas=3", NO_VOLUME, "settings.server.drain=40"),
            "more than the 40 seconds of settings.server.drain",
        ),
        (("settings.coordination.name=one",), "settings.coordination.name is made by the chart"),
        (("settings.server.http=off",), "settings.server.http is made by the chart"),
        (
            ("settings.server.journal=false",),
            'settings.server.journal is no switch. If it is to be off, write "off"',
        ),
        (("replicas=3", "shim.enabled=true", "shim.image=x", NO_VOLUME), "leave replicas at 1"),
        (("replicas=0",), "replicas"),
        (("coordination.store=etcd://etcd:2379",), "set replicas to 2 or more"),
        (("replicas=3", NO_VOLUME, "coordination.secretName=x"), "set coordination.store"),
        (("replicas=3", NO_VOLUME, "coordination.store=consul://x"), "coordination.store"),
        (("unheard=of",), "unheard"),
        (("resources.limits.memory=null",), "memory"),
        (("image.digest=latest",), "sha256:[0-9a-f]{64}"),
        (("links.runbooks=docs/runbooks.md",), "links.runbooks"),
        ((), "image.repository: where you have pushed the image"),
        (("viewers={me}", MUTUAL), "they need tls.clientAuthority"),
        (("tokens.viewers={a}",), "tokens.secretName: the secret with the tokens"),
        (("tokens.viewers={a}", "tokens.secretName=t", MUTUAL), "everybody may do everything"),
        (("tokens.viewers={a}", "tokens.secretName=t", "http.insecure=true"), "leave http.insecure out"),
        (("ingress.host=licorne.example",), "name a key with a token in tokens.viewers"),
        (("ingress.gateway.namespace=x",), "name"),
        (("certManager.enabled=true", "insecure=true"), "certManager.enabled: there is no TLS"),
        (("certManager.clients={batch}",), "need certManager.enabled and tls.clientAuthority"),
    ],
)
def test_contradicting_values_are_refused(sets: tuple[str, ...], message: str) -> None:
    """The message has the correction, before anything is installed."""
    image = WITH_IMAGE if sets else ()
    done = helm("template", "licorne", CHART, *image, *(word for pair in sets for word in ("--set", pair)))
    assert done.returncode != 0
    assert message in done.stderr


def test_the_chart_has_all_settings() -> None:
    """Its lists of own settings and of switches have the keys of the server."""
    helpers = (CHART / "templates/_helpers.tpl").read_text("utf-8")
    own, switches = (
        set(re.findall(r'"(\w+\.\w+)"', found)) for found in re.findall(r"{{- list (.*) \| toJson", helpers)
    )
    assert own < KEYS.keys()
    assert switches == {path for path, key in KEYS.items() if key.kind.metavar == SWITCH.metavar}


def test_plain_manifests_are_up_to_date(tmp_path: Path) -> None:
    """The manifests equal the output of the chart: `make manifests` writes them."""
    assert lines((PLAIN / "licorne.yaml").read_text("utf-8")) == lines(template())
    built = check("kustomize", PLAIN)
    assert built.returncode == 0, built.stderr
    found = objects(built.stdout)
    others = [one for one in found if one["kind"] != "Namespace"]
    assert len(others) == len(objects(template()))
    assert {one["metadata"]["namespace"] for one in others} == {only(found, "Namespace")["metadata"]["name"]}
    file = tmp_path / "built.yaml"
    file.write_text(built.stdout)
    done = check("kubernetes", file)
    assert done.returncode == 0, done.stderr


def lines(text: str) -> list[str]:
    """The non-empty lines, because Helm 4 has an empty one between two objects."""
    return [line for line in text.splitlines() if line]


def test_a_package_is_complete(tmp_path: Path) -> None:
    """Files that the checkout links to are in the package itself, and it renders alike."""
    done = helm("package", CHART, "--destination", tmp_path)
    assert done.returncode == 0, done.stderr
    [package] = tmp_path.glob("*.tgz")
    with tarfile.open(package) as archive:
        shown = archive.extractfile("licorne/files/licorne.json")
        rules = archive.extractfile("licorne/files/alerts.yml")
        assert shown is not None
        assert rules is not None
        assert json.load(shown) == dashboard()
        assert rules.read() == (PROMETHEUS / "alerts.yml").read_bytes()
    made = helm("template", "licorne", package, "--namespace", "licorne", *WITH_IMAGE)
    assert made.stdout == template()


def test_a_chart_without_its_dashboard_refuses_it(tmp_path: Path) -> None:
    """A chart whose dashboard was not generated cannot enable it, and works otherwise."""
    chart = shutil.copytree(CHART, tmp_path / "licorne")
    (chart / "files/licorne.json").unlink()
    done = helm("template", "licorne", chart, *WITH_IMAGE, "--set", "dashboard.enabled=true")
    assert done.returncode != 0
    assert "make chart draws it" in done.stderr
    assert helm("template", "licorne", chart, *WITH_IMAGE).returncode == 0


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("replicas: 1", "replica: 1", 'unknown field "spec.replica"'),
        ("replicas: 1", "replicas: one", "cannot unmarshal string"),
        (
            "automountServiceAccountToken: false\n",
            "automount: false\n",
            'unknown field "automount"',
        ),
        ("kind: Service\n", "kind: Servise\n", "no such kind is known here"),
        ("name: licorne\n", "name: Licorne\n", "a lowercase RFC 1123 subdomain"),
    ],
)
def test_the_check_of_objects_detects_mistakes(old: str, new: str, message: str, tmp_path: Path) -> None:
    """A field that the API server would drop silently is refused, with its place."""
    file = tmp_path / "wrong.yaml"
    text = (PLAIN / "licorne.yaml").read_text("utf-8")
    assert old in text
    file.write_text(text.replace(old, new))
    done = check("kubernetes", file)
    assert done.returncode == 1
    assert message in done.stderr


def test_the_compose_file_is_valid(tmp_path: Path) -> None:
    """The composition is checked by the published specification, which refuses unknown keys."""
    for name in ("docker-compose.yml", "docker-compose.members.yml"):
        done = check("compose", ROOT / name)
        assert done.returncode == 0, done.stderr
    text = (ROOT / "docker-compose.yml").read_text("utf-8")
    for old, new in (("cap_drop:", "cap_dropped:"), ("  tls:\n", ""), ("core: {", "kernel: {")):
        file = tmp_path / "docker-compose.yml"
        file.write_text(text.replace(old, new))
        assert check("compose", file).returncode == 1, old
