"""The compose file of members: its commands start, and members find each other and their store."""

from typing import Any

import yaml

from licorne_cli.commands import parser_for
from licorne_server.commands.serve_options import settings_of
from licorne_server.process.settings import Settings
from support.docs.pages import ROOT

COMPOSITION: dict[str, Any] = yaml.safe_load(
    (ROOT / "docker-compose.members.yml").read_text(encoding="utf-8")
)
SERVICES: dict[str, dict[str, Any]] = COMPOSITION["services"]
MEMBERS = {name: service for name, service in SERVICES.items() if name.startswith("core-")}


def settings(service: dict[str, Any]) -> Settings:
    """The settings of `serve` for the service's command."""
    read = settings_of(parser_for("serve").parse_args(service["command"]))
    read.check()
    return read


def test_members_share_the_etcd_of_the_compose_file() -> None:
    """Each member names the etcd of the compose file at its port, and all have one prefix."""
    found = {settings(service).coordination for service in MEMBERS.values()}
    stores = {(store.hosts, store.prefix) for store in found if store is not None}
    assert stores == {(("etcd:2379",), "licorne")}
    urls = [text for text in SERVICES["etcd"]["command"] if "client-urls" in text]
    assert urls == ["--listen-client-urls=http://0.0.0.0:2379", "--advertise-client-urls=http://etcd:2379"]


def test_members_advertise_their_own_names() -> None:
    """Each member advertises an address of `core` for which the common certificate is valid."""
    names = SERVICES["certificates"]["command"][1].split(",")
    assert names == ["core", *MEMBERS]
    for name, service in MEMBERS.items():
        coordination = settings(service).coordination
        assert coordination is not None
        assert coordination.advertise == f"{name}:7070"
        assert service["networks"] == {"default": {"aliases": ["core"]}}
        assert service["environment"]["LICORNE_TARGET"] == f"{name}:7070"


def test_rms_dial_any_member() -> None:
    """An RM names none of the members, so that it survives the loss of each."""
    rms = {name: service for name, service in SERVICES.items() if "--world" in service.get("command", ())}
    assert len(rms) == 3
    for name, service in rms.items():
        assert service["environment"]["LICORNE_TARGET"] == "core:7070"
        assert name in SERVICES["certificates"]["command"]


def test_a_member_has_time_to_drain() -> None:
    """A member is not killed before its RMs have left."""
    for service in MEMBERS.values():
        assert int(service["stop_grace_period"].removesuffix("s")) > settings(service).drain
