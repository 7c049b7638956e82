"""The compose file: everything it refers to exists, its commands are valid, and ports are local."""

import re
from pathlib import Path

import pytest
import yaml

from licorne_cli.commands import parser_for
from licorne_cli.connection.target import VARIABLES
from licorne_server.commands.serve_options import settings_of
from support.deployment import OURS, composition, mounts, ours, services
from support.docs.pages import ROOT

SERVICES = services()
ONCE, DASHBOARD = "certificates", "dashboard"
"""The services that end by themselves. The first one builds the image."""


@pytest.mark.parametrize("name", SERVICES)
def test_every_service_is_hardened(name: str) -> None:
    """Each service has all settings of `x-hardened`, such as a read-only root and no privileges."""
    hardened = composition()["x-hardened"]
    assert hardened["read_only"] is True
    assert hardened["cap_drop"] == ["ALL"]
    assert hardened["security_opt"] == ["no-new-privileges:true"]
    assert hardened["pids_limit"] > 0
    expected = hardened | ({"restart": "no"} if name in (ONCE, DASHBOARD) else {})
    assert expected.items() <= SERVICES[name].items()
    assert not SERVICES[name].keys() & {"privileged", "cap_add", "user", "network_mode", "pid"}


@pytest.mark.parametrize("name", SERVICES)
def test_every_service_has_a_limit_of_memory(name: str) -> None:
    """Each service has a limit of memory, and no swap beyond it."""
    service = SERVICES[name]
    assert re.fullmatch(r"[1-9]\d*[mg]", service["mem_limit"])
    assert service["memswap_limit"] == service["mem_limit"]


def test_foreign_images_have_a_version() -> None:
    """Foreign images are pinned by a tag, and none by a moving one."""
    images = [service["image"] for service in SERVICES.values() if service["image"] != OURS]
    assert images
    assert all(re.fullmatch(r"[\w./-]+:[\w-]*\d+\.\d+\.\d+", image) for image in images)


def test_the_image_is_built_once() -> None:
    """One service builds the image; the others use it without a registry, and wait for it."""
    policies = {name: it["pull_policy"] for name, it in SERVICES.items() if it["image"] == OURS}
    assert policies == {ONCE: "build"} | dict.fromkeys([DASHBOARD, *ours()], "never")
    assert [name for name, service in SERVICES.items() if "build" in service] == [ONCE]
    [base] = SERVICES[ONCE]["build"]["args"]
    assert f"ARG {base}=" in (ROOT / "Dockerfile").read_text("utf-8")
    assert all(ONCE in needed(name) for name in [DASHBOARD, *ours()])


def needed(name: str) -> set[str]:
    """The services that are started with this one, because it waits for them."""
    found = set(SERVICES[name].get("depends_on", ()))
    return found.union(*map(needed, found))


def test_ports_are_local() -> None:
    """No port is published beyond loopback, and none twice."""
    published = [port for service in SERVICES.values() for port in service.get("ports", [])]
    assert published
    assert all(re.fullmatch(r"127\.0\.0\.1:(\d+):\1", port) for port in published)
    assert len(set(published)) == len(published)


def test_mounted_files_exist() -> None:
    """Files are in the checkout and cannot be written; volumes are declared, and each is used."""
    mounted = [mount for service in SERVICES.values() for mount in mounts(service)]
    assert all((ROOT / mount.source).exists() and mount.read_only for mount in mounted if not mount.is_volume)
    volumes = {mount.source for mount in mounted if mount.is_volume}
    assert volumes == composition()["volumes"].keys()
    writers = [
        name
        for name, service in SERVICES.items()
        if any(mount.source == "tls" and not mount.read_only for mount in mounts(service))
    ]
    assert writers == [ONCE]


@pytest.mark.parametrize(
    ("name", "written"),
    [
        ("certificates", ["/etc/licorne/tls", "/tmp"]),
        ("dashboard", ["/etc/grafana/dashboards", "/tmp"]),
        ("core", ["/tmp", "/var/lib/licorne"]),
        ("prometheus", ["/prometheus"]),
        ("grafana", ["/tmp", "/var/lib/grafana"]),
        ("web", []),
    ],
)
def test_written_files_have_a_place(name: str, written: list[str]) -> None:
    """Roots are read-only: a database is on a volume, and temporary files are in memory."""
    service = SERVICES[name]
    volumes = [mount.path for mount in mounts(service) if not mount.read_only]
    assert sorted([*volumes, *service.get("tmpfs", ())]) == written


def test_no_key_is_in_the_checkout() -> None:
    """Keys are generated where they are used; the folders of the compose file have none."""
    files = [path for path in (ROOT / "deploy").rglob("*") if path.is_file()]
    files = [path for path in files if path.suffix not in (".pyc", ".whl")]
    assert not [path for path in files if path.suffix in (".key", ".pem", ".crt", ".p12")]
    assert not [path for path in files if "PRIVATE KEY" in path.read_text("utf-8")]


@pytest.mark.parametrize("name", ours())
def test_commands_are_valid(name: str) -> None:
    """Each command is valid, and those of servers have valid settings."""
    command = SERVICES[name]["command"]
    args = parser_for(command[0]).parse_args(command)
    if args.command == "serve":
        settings_of(args).check()


@pytest.mark.parametrize("name", ours())
def test_variables_are_valid(name: str) -> None:
    """Each variable is one of the commands', and names a generated certificate."""
    environment: dict[str, str] = SERVICES[name]["environment"]
    assert environment.keys() <= set(VARIABLES.values())
    [folder, *made] = SERVICES[ONCE]["command"]
    files = [Path(value) for value in environment.values() if value.startswith("/")]
    assert files
    assert all(str(file.parent) == folder and file.stem in (*made, "ca") for file in files)


def test_clients_find_the_core() -> None:
    """RMs, the web UI and Prometheus use the core's addresses; RMs and UI wait until it is ready."""
    core = settings_of(parser_for("serve").parse_args(SERVICES["core"]["command"]))
    assert core.http is not None
    grpc, http = f"core:{core.listen.port}", f"core:{core.http.port}"
    assert all(service["environment"]["LICORNE_TARGET"] == grpc for service in ours().values())
    assert SERVICES["web"]["environment"]["PROXY_URL"] == f"http://{http}"
    scrapes = yaml.safe_load((ROOT / "deploy/prometheus/prometheus.yml").read_text("utf-8"))
    assert [job["static_configs"] for job in scrapes["scrape_configs"]] == [[{"targets": [http]}]]
    waiting = {name for name, it in SERVICES.items() if "core" in it.get("depends_on", ())}
    assert waiting == (ours().keys() - {"core"}) | {"web"}
    assert all(SERVICES[name]["depends_on"] == {"core": {"condition": "service_healthy"}} for name in waiting)


def test_grafana_finds_its_dashboard() -> None:
    """The dashboard and the data source are in Grafana's folders, and no login is needed."""
    grafana = SERVICES["grafana"]
    folders = {mount.path: ROOT / mount.source for mount in mounts(grafana) if mount.read_only}
    provisioning = folders["/etc/grafana/provisioning"]
    [provider] = yaml.safe_load((provisioning / "dashboards/licorne.yml").read_text())["providers"]
    home = Path(grafana["environment"]["GF_DASHBOARDS_DEFAULT_HOME_DASHBOARD_PATH"])
    assert str(home.parent) == provider["options"]["path"]
    assert SERVICES[DASHBOARD]["command"] == [str(home)]
    written, shown = (
        next(mount.source for mount in mounts(service) if mount.path == str(home.parent))
        for service in (SERVICES[DASHBOARD], grafana)
    )
    assert written == shown
    assert DASHBOARD in needed("grafana")
    sources = yaml.safe_load((provisioning / "datasources/prometheus.yml").read_text())
    [source] = sources["datasources"]
    assert source["url"] == "http://prometheus:9090"
    assert "127.0.0.1:9090:9090" in SERVICES["prometheus"]["ports"]
    assert grafana["environment"]["GF_AUTH_ANONYMOUS_ORG_ROLE"] == "Viewer"
