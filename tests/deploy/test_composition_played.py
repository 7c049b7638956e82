"""The services of the compose file run with their own commands, and Prometheus scrapes them."""

import asyncio
import json
import logging
import re
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import aiohttp
import pytest
import pytest_asyncio
import yaml

from support.deployment import LICORNE, Play, dashboard, mounts, services, targets, without_variables
from support.patience import PATIENCE

LOG = logging.getLogger(__name__)

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.needs("openssl")]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def play(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Play]:
    """The certificates, core and RMs of the compose file, with allocations."""
    async with Play(tmp_path_factory.mktemp("composition")) as play:
        assert await play.certificates() == ("certificates: made for core batch services research operator\n")
        await play.core()
        rms = await play.rms()
        await until(rms, lambda: busy(play))
        yield play


async def until(wanted: object, look: Callable[[], Awaitable[object]]) -> None:
    """Poll until the value is reached."""
    async with asyncio.timeout(PATIENCE):
        while (found := await look()) != wanted:
            LOG.debug("there is %s", found)
            await asyncio.sleep(0.1)


async def get(url: str) -> str:
    """The body of a successful answer."""
    async with aiohttp.ClientSession() as client, client.get(url) as answer:
        assert answer.status == 200, url
        return await answer.text()


def scraped(play: Play) -> str:
    """The targets of Prometheus."""
    [folder] = [mount for mount in mounts(services()["prometheus"]) if mount.path == "/etc/prometheus"]
    read = yaml.safe_load((play.place(folder) / "prometheus.yml").read_text("utf-8"))
    [job] = read["scrape_configs"]
    [[target]] = [entry["targets"] for entry in job["static_configs"]]
    return f"http://{play.addresses[target]}{job['metrics_path']}"


async def busy(play: Play) -> set[str]:
    """The RMs with allocations in a scrape."""
    found = re.findall(
        r'^licorne_allocations\{.*rm="(\w+)".*\} (\S+)$', await get(scraped(play)), re.MULTILINE
    )
    return {name for name, number in found if float(number)}


async def test_certificates_are_generated_once(play: Play) -> None:
    """After a restart certificates are unchanged, and after damage all are generated again."""
    folder = play.folder / "tls"
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    assert "ca.key" not in before
    assert all(path.stat().st_mode & 0o077 == 0 for path in folder.iterdir())
    assert (await play.certificates()).endswith(" are there\n")
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before


@pytest.mark.parametrize("damage", ["other authority", "missing key", "another name"])
async def test_certificates_are_of_one_authority(damage: str, tmp_path: Path) -> None:
    """If certificates are incomplete or missing, all are generated again, of one authority."""
    async with Play(tmp_path) as play:
        await play.certificates()
        folder = tmp_path / "tls"
        if damage == "other authority":
            (folder / "ca.pem").write_bytes((folder / "core.pem").read_bytes())
        elif damage == "missing key":
            (folder / "core.key").unlink()
        else:
            (folder / "batch.pem").unlink()
        assert (await play.certificates()).startswith("certificates: made for ")
        made = services()["certificates"]
        for name in made["command"][1:]:
            file = f"{folder}/{name}.pem"
            assert await play.run(made, "openssl", "verify", "-CAfile", f"{folder}/ca.pem", file)


async def test_the_dashboard_is_generated(play: Play) -> None:
    """The dashboard is on the volume that Grafana reads."""
    await play.finish("dashboard")
    drawn = play.folder / "dashboards/licorne.json"
    assert json.loads(drawn.read_text("utf-8")) == dashboard()


async def test_commands_run_as_the_operator(play: Play) -> None:
    """`docker compose exec core licorne ...` runs as the operator, and verifies the server's name."""
    core = services()["core"]
    shown = json.loads(await play.run(core, *LICORNE, "rms", "-o", "json"))["rms"]
    assert {rm["rmId"]: rm["connected"] for rm in shown} == {
        "batch": True,
        "research": True,
        "services": True,
    }
    named = await play.run(core, *LICORNE, "nodes", "--tls-server-name", "core", "-o", "name")
    assert named


async def test_the_web_ui_is_answered(play: Play) -> None:
    """Requests passed on by the web UI are answered without a certificate."""
    url = play.here(services()["web"], services()["web"]["environment"]["PROXY_URL"])
    partitions = json.loads(await get(f"{url}/ws/v1/partitions"))
    assert len(partitions) == 3


async def test_configurations_survive(play: Play) -> None:
    """The state directory is on its volume."""
    assert list((play.folder / "state").iterdir())


@pytest.mark.promtool
async def test_prometheus_has_data(play: Play) -> None:
    """Prometheus of the compose file scrapes the core, and panels of the dashboard have lines."""
    url = await prometheus(play)
    await until(["up"], lambda: health(url))
    rules = json.loads(await get(f"{url}/api/v1/rules?type=alert"))["data"]["groups"]
    assert rules
    for title, lines in (("RMs connected", 1), ("Allocations", 1), ("Sessions", 3)):
        expression = next(t["expr"] for name, t in targets() if name == title)
        async with (
            aiohttp.ClientSession() as client,
            client.get(f"{url}/api/v1/query", params={"query": without_variables(expression)}) as answer,
        ):
            found = (await answer.json())["data"]["result"]
        assert len(found) == lines, title
        assert all(float(line["value"][1]) > 0 for line in found), title


async def health(url: str) -> list[str]:
    """The health of the scraped targets."""
    read = json.loads(await get(f"{url}/api/v1/targets?state=active"))
    return [target["health"] for target in read["data"]["activeTargets"]]


async def prometheus(play: Play) -> str:
    """Start Prometheus with the command of the compose file; return its address."""
    service = dict(services()["prometheus"])
    folder = play.folder / "mounted"
    folder.mkdir()
    for mount in mounts(service):
        if not mount.is_volume:
            for file in play.place(mount).iterdir():
                text = play.here(service, file.read_text("utf-8"))
                # Once a second, so that the first scrape is soon.
                (folder / file.name).write_text(text.replace("interval: 15s", "interval: 1s"))
            service["command"] = [word.replace(mount.path, str(folder)) for word in service["command"]]
    service["command"] = [*service["command"], "--web.listen-address=127.0.0.1:0"]
    process = await play.start(service, ("prometheus",), stderr=asyncio.subprocess.PIPE)
    assert process.stderr is not None
    said = ""
    async with asyncio.timeout(PATIENCE):
        while "Server is ready to receive web requests" not in said:
            line = (await process.stderr.readline()).decode()
            assert line, said
            said += line
    [address] = re.findall(r'msg="Listening on" address=(\S+)', said)
    return f"http://{address}"
