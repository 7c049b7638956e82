"""Decisions about victims, and questions to the RM about them (spec §§ 9.4, 9.5)."""

from typing import NamedTuple

from licorne_core.messages.effects import AskedNode, AskedPreemption, AskedVictim
from licorne_core.model.apps.application import Application
from licorne_core.model.apps.requests import Request
from licorne_core.model.nodes.node import Node
from licorne_core.scheduling.calls import Call, OpenCalls
from licorne_core.standard.preemption.planning import VictimPlan
from licorne_core.standard.preemption.requests import PreemptionRequest
from licorne_core.standard.preemption.victims import Victim


class ToPreempt(NamedTuple):
    """A decision: stop the victims of one of these plans for the ask; the best plan is the first."""

    app: Application
    request: Request
    plans: tuple[VictimPlan, ...]


class ToClear(NamedTuple):
    """A decision: stop these victims for an ask that requires the node (§ 9.5)."""

    app: Application
    request: Request
    node: Node
    victims: tuple[Victim, ...]


class Proposal(NamedTuple):
    """Plans for an ask of a preemption request, about which the RM is asked."""

    app: Application
    wants: PreemptionRequest
    request: Request
    plans: tuple[VictimPlan, ...]

    @property
    def unknown(self) -> list[Node]:
        """Nodes of the plans about which the RM has not answered for the ask yet."""
        name = (self.request.ask.ask_class, False)
        return [plan.node for plan in self.plans if name not in plan.node.results]

    def upto_known(self) -> "Proposal":
        """The proposal up to the first plan whose node the RM has already accepted."""
        name = (self.request.ask.ask_class, False)
        for index, plan in enumerate(self.plans):
            if plan.node.results.get(name) == "":
                return self._replace(plans=self.plans[: index + 1])
        return self


class PreemptionCall(Call):
    """A question to the RM: which victims of a proposal have to be stopped."""

    __slots__ = ("proposal",)

    def __init__(self, number: int, proposal: Proposal) -> None:
        """Create the question without an answer."""
        super().__init__(number)
        self.asker = self.proposal = proposal


def ask_about(proposal: Proposal, calls: OpenCalls) -> None:
    """Ask the RM which victims of the proposal have to be stopped."""
    call, request = PreemptionCall(calls.next_number(), proposal), proposal.request
    nodes = [_asked_node(plan) for plan in proposal.plans]
    calls.open(call, AskedPreemption(call.number, request.ask.app_id, request.key, nodes))


def _asked_node(plan: VictimPlan) -> AskedNode:
    offered = [AskedVictim(v.app.app_id, v.request.key) for v in plan.offered]
    return AskedNode(plan.node.node_id, offered, plan.start)
