"""A client of the HTTP listener, with the core that answers and what the server says of itself."""

import json
from dataclasses import dataclass, field
from typing import Any

import aiohttp
from prometheus_client.openmetrics.parser import (
    text_string_to_metric_families as parse_openmetrics,
)
from prometheus_client.parser import text_string_to_metric_families as parse_plain
from yarl import URL

from licorne_server.http import Figures, Status
from support.driver import Driver


@dataclass
class Site:
    """The core, what the server says of itself, and a client of the listener."""

    driver: Driver
    status: Status
    client: aiohttp.ClientSession
    address: str
    figures: Figures = field(default_factory=Figures)

    async def ask(
        self, path: str, *, method: str = "GET", body: bytes | None = None, **headers: str
    ) -> tuple[int, dict[str, str], bytes]:
        """Status, headers and body as they came; the path is sent as it is written here."""
        names = {"Accept-Encoding": "identity"}
        names |= {name.replace("_", "-"): value for name, value in headers.items()}
        url = URL(self.address + path, encoded=True)
        async with self.client.request(method, url, data=body, headers=names) as answer:
            return answer.status, dict(answer.headers), await answer.read()

    async def get(self, path: str) -> Any:
        """The JSON of a successful answer."""
        status, headers, body = await self.ask(path)
        assert status == 200, body
        assert headers["Content-Type"] == "application/json; charset=utf-8"
        return json.loads(body)

    async def refused(self, path: str, *, method: str = "GET", body: bytes | None = None) -> Any:
        """The JSON of an error, its status under ``status_code``."""
        status, headers, raw = await self.ask(path, method=method, body=body)
        assert headers["Content-Type"].startswith("application/json")
        answer = json.loads(raw)
        assert answer["status_code"] == answer["StatusCode"] == status
        assert answer["message"] == answer["Message"] != ""
        assert answer["description"] == answer["Description"] != ""
        return answer

    async def metrics(self, accept: str = "") -> dict[str, float]:
        """Every sample of a scrape, as another reader than ours understands it.

        The keys are names with labels in the order of their names: ``name{a="1",b="2"}``.
        """
        status, headers, body = await self.ask("/metrics", Accept=accept)
        assert status == 200
        openmetrics = "openmetrics" in headers["Content-Type"]
        parse = parse_openmetrics if openmetrics else parse_plain
        samples: dict[str, float] = {}
        for family in parse(body.decode()):
            for sample in family.samples:
                pairs = (f'{label}="{text}"' for label, text in sorted(sample.labels.items()))
                labels = ",".join(pairs)
                name = f"{sample.name}{{{labels}}}" if labels else sample.name
                assert name not in samples, f"{name} is there twice"
                samples[name] = sample.value
        return samples
