"""Gangs that come together: placeholders keep the room, and real allocations take their places.

The RM asks for all placeholders at once. As soon as a gang has all of its placeholders the RM asks
for the real ones, and it confirms at once each placeholder that it is told to stop.
"""

from collections.abc import Iterable, Iterator
from dataclasses import replace

from licorne.si.v1.si_pb2 import AddApplicationRequest, Allocation, TerminationType
from licorne_server.commands.server_process import ServerProcess
from licorne_tools.bench import workload
from licorne_tools.bench.driver import BenchError, Replies, Rm, together
from licorne_tools.bench.load import Load, Options, prepared, timed
from licorne_tools.bench.scenarios import Scenario


async def gang(server: ServerProcess, scenario: Scenario, options: Options) -> Load:
    """From the first placeholder sent to the last real allocation received.

    Both count as allocations: two for each member. A member is an ask for a placeholder, which is
    placed; a real ask; the placeholder told to stop, confirmed; and the real allocation.
    """
    async with prepared(server, scenario, options.progress) as rm:
        await rm.add_applications(applications(scenario))
        gangs = Gangs(rm, scenario)
        load = await timed(server, gangs.come_together(), 2 * scenario.pods, options.progress)
        figures = gangs.figures(len(load.responses))
        return replace(load, extra={**figures, "members_per_second": scenario.pods / load.seconds})


def applications(scenario: Scenario) -> Iterator[AddApplicationRequest]:
    """The applications of the scenario, each of which says how large its gang is."""
    vcore, memory = map(sum, zip(*(size(number) for number in range(scenario.asks)), strict=True))
    for application in workload.applications(scenario):
        application.placeholderAsk.CopyFrom(workload.resource(vcore, memory))
        yield application


def size(number: int) -> tuple[int, int]:
    """The size of a member; it is that of its task group."""
    return workload.SIZES[number % len(workload.SIZES)]


def members(scenario: Scenario, app: str, *, placeholder: bool) -> Iterator[Allocation]:
    """The placeholders of a gang, or the real asks that replace them."""
    kind = "placeholder" if placeholder else "real"
    for number in range(scenario.asks):
        yield Allocation(
            allocationKey=f"{app}-{kind}-{number:06}",
            applicationID=app,
            resourcePerAlloc=workload.resource(*size(number)),
            taskGroupName=f"group-{number % len(workload.SIZES)}",
            placeholder=placeholder,
        )


class Gangs:
    """The RM's side of all gangs."""

    def __init__(self, rm: Rm, scenario: Scenario) -> None:
        """Everything that is going to be sent is made now, so that it costs little later."""
        apps = [name for _, name in workload.app_names(scenario)]
        placeholders = [m for app in apps for m in members(scenario, app, placeholder=True)]
        self._rm = rm
        self._replies = Replies(rm, scenario.batch)
        self._messages = workload.requests(rm.rm_id, placeholders, scenario.batch)
        self._real = {app: [*members(scenario, app, placeholder=False)] for app in apps}
        self._missing = dict.fromkeys(apps, scenario.asks)
        self._waiting = scenario.pods

    async def come_together(self) -> list[bytes]:
        """Until all real asks are placed; the raw responses."""
        return await together(self._rm.send(self._messages), self._play())

    async def _play(self) -> list[bytes]:
        responses = []
        while self._waiting:
            data, response = await self._rm.read()
            responses.append(data)
            await self._replies.ask(self._hear(response.new))
            released = response.released
            confirmed = await self._replies.confirm(released, TerminationType.PLACEHOLDER_REPLACED)
            if confirmed < len(released):
                raise BenchError("a placeholder was stopped that nobody replaces")
        return responses

    def _hear(self, placed: Iterable[Allocation]) -> list[Allocation]:
        """The real asks of the gangs that have all their placeholders now."""
        due: list[Allocation] = []
        for allocation in placed:
            if not allocation.placeholder:
                self._waiting -= 1
                continue
            app = allocation.applicationID
            self._missing[app] -= 1
            if not self._missing[app]:
                due += self._real[app]
        return due

    def figures(self, responses: int) -> dict[str, float]:
        """The messages of both sides, and what was confirmed."""
        return {
            "gangs": len(self._real),
            "confirmations": self._replies.confirmations,
            "requests": len(self._messages) + self._replies.requests,
            "responses": responses,
        }
