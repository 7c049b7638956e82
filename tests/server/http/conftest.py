"""A real listener on a free port, over a real core that the test drives."""

from collections.abc import AsyncIterator
from types import SimpleNamespace

import aiohttp
import pytest

from licorne_core.config.extra import read_extra
from licorne_server.engine.audits import Audits
from licorne_server.http import HttpServer
from licorne_server.reads.history.recorder import Recorder
from licorne_server.reads.sources import Sources, Status
from licorne_server.rms.event_log import EventLogs
from licorne_server.store.configurations.revisions import Revisions
from licorne_server.wire.features import rows
from support.core.driver import START, Driver
from support.server.http_site import Site


@pytest.fixture
async def site() -> AsyncIterator[Site]:
    """A listener over an empty core."""
    driver = Driver()
    status = Status(started=True)
    async with aiohttp.ClientSession(auto_decompress=False) as client:
        events = EventLogs(
            lambda rm_id: read_extra(driver.views.rm(rm_id).extra_config),
        )
        revisions: dict[str, Revisions] = {}
        recorder = Recorder(driver.views, revisions.get, START)
        site = Site(driver, status, client, "", events, recorder, revisions)
        site.answering.set()
        clock = SimpleNamespace(now=lambda: driver.now)
        server = HttpServer(
            Sources(
                views=driver.views,
                status=status,
                started_time=START,
                now=lambda: driver.now,
                rm_state=site.rm_state,
                figures=lambda: site.figures,
                history=site.history,
                recorder=site.recorder,
                revisions=revisions.get,
                events=events,
                time_slices=site.time_slices,
                explained=[one(driver.views, clock, site.time_slices).explain for one in rows("EXPLAINED")],
                audits=Audits(driver.views, clock, site.time_slices),
            )
        )
        host, port = await server.start("127.0.0.1", 0)
        site.address = f"http://{host}:{port}"
        [listener] = server._listeners
        for resource in listener._runner.app.router.resources():
            info = resource.get_info()
            site.paths.append(info["path"] if "path" in info else info["pattern"].pattern)
        yield site
        events.close()
        await server.stop()
