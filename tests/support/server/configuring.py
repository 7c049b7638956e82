"""Configurations to alternate between, and the calls that change them."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import grpc

from licorne.v1 import admin_pb2 as pb
from licorne.v1.admin_pb2_grpc import AdminStub
from licorne_server.assembly.server import Server
from support.core.steps import listed
from support.peers.shim import info_of


def text(queue: str, **maxima: int) -> str:
    """A configuration with one leaf of that name."""
    resources = f", resources: {{max: {maxima}}}".replace("'", "") if maxima else ""
    return (
        f"partitions:\n  - name: default\n    queues:\n      - name: root\n        submitacl: '*'\n"
        f"        queues: [{{name: {queue}{resources}}}]\n"
    )


A, B, C, D = map(text, "abcd")
BROKEN = text("a").replace("submitacl", "submitall")


@dataclass(frozen=True)
class Refusal:
    """The details of a refused call."""

    code: grpc.StatusCode
    text: str
    reason: str
    metadata: dict[str, str]


def refusal(error: grpc.aio.AioRpcError) -> Refusal:
    """The code, the text, and the details for programs."""
    return Refusal(error.code(), error.details() or "", *info_of(error))


class Admin:
    """The calls about configurations, for one RM."""

    def __init__(self, channel: Any, rm_id: str = "rm") -> None:
        """Use this channel."""
        self._stub: Any = AdminStub(channel)
        self._rm_id = rm_id

    async def get(self) -> pb.GetConfigurationResponse:
        """The configuration in force."""
        request = pb.GetConfigurationRequest(rm_id=self._rm_id)
        answer: pb.GetConfigurationResponse = await self._stub.GetConfiguration(request)
        return answer

    async def apply(
        self,
        config: str,
        base: int = 0,
        comment: str = "",
        extra: Mapping[str, str] | None = None,
    ) -> pb.UpdateConfigurationResponse:
        """Apply a text, with an extra configuration unless `extra` is None."""
        request = pb.UpdateConfigurationRequest(
            rm_id=self._rm_id,
            config=config,
            base_revision=base,
            comment=comment,
            extra_config=extra or {},
        )
        answer: pb.UpdateConfigurationResponse = await self._stub.UpdateConfiguration(request)
        return answer

    async def plan(self, config: str) -> pb.PlanConfigurationResponse:
        """The plan for a text."""
        request = pb.PlanConfigurationRequest(rm_id=self._rm_id, config=config)
        answer: pb.PlanConfigurationResponse = await self._stub.PlanConfiguration(request)
        return answer

    async def validate(self, config: str) -> pb.ValidateConfigurationResponse:
        """The answer about a text that is not applied."""
        request = pb.ValidateConfigurationRequest(config=config)
        answer: pb.ValidateConfigurationResponse = await self._stub.ValidateConfiguration(request)
        return answer

    async def history(self, **fields: Any) -> list[pb.ConfigurationRevision]:
        """The revisions, the latest first."""
        request = pb.ListConfigurationsRequest(rm_id=self._rm_id, **fields)
        return list((await self._stub.ListConfigurations(request)).revisions)

    async def roll_back(self, to: int = 0, base: int = 0) -> pb.RollBackConfigurationResponse:
        """Apply the text of an earlier revision."""
        request = pb.RollBackConfigurationRequest(rm_id=self._rm_id, revision=to, base_revision=base)
        answer: pb.RollBackConfigurationResponse = await self._stub.RollBackConfiguration(request)
        return answer

    async def reload(self) -> pb.ReloadConfigurationResponse:
        """Reload the file of the default configuration."""
        request = pb.ReloadConfigurationRequest()
        answer: pb.ReloadConfigurationResponse = await self._stub.ReloadConfiguration(request)
        return answer

    async def in_force(self) -> tuple[str, int, str]:
        """Text, revision and source."""
        running = await self.get()
        return running.config, running.revision, running.source


def queues(server: Server, rm_id: str = "rm") -> tuple[str, ...]:
    """The core's queues below root, without draining ones."""
    views = server.scheduler.views
    partition = views.resolve(f"[{rm_id}]default")
    names = listed(views.children(partition, "root"))
    return tuple(name for name in names if views.queue(partition, name).state == "Active")


def write(file: Path, content: str) -> None:
    """Replace the file atomically, as editors do."""
    beside = file.with_suffix(".beside")
    beside.write_text(content, encoding="utf-8")
    beside.replace(file)


def remove(file: Path) -> None:
    """Delete a file."""
    file.unlink()
