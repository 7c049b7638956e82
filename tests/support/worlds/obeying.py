"""RMs that confirm all requests at once, as plans assume."""

from licorne_core.messages.commands import (
    AnswerPredicates,
    AnswerPreemptions,
    Command,
    PredicateAnswer,
    PreemptionAnswer,
)
from licorne_core.messages.effects import AllocationsReleased, Effect, PredicatesAsked, PreemptionsAsked
from support.core.builders import release, releases
from support.core.driver import Driver
from support.worlds.playing import ASKED


def let_happen(driver: Driver, *commands: Command, seconds: float = 0.0) -> list[Effect]:
    """Process commands, and let time pass, with RMs that obey; return all effects."""
    told: list[Effect] = []
    replies: list[Command] = []

    def hear(effects: list[Effect]) -> None:
        told.extend(effects)
        replies.extend(reply for effect in effects for reply in _obeying(effect))

    for command in commands:
        hear(driver.send(command))
    end = driver.now + seconds
    while True:
        hear(driver.run())
        if replies:
            due, replies[:] = replies[:], []
            for reply in due:
                hear(driver.send(reply))
            continue
        deadline = driver.scheduler.next_deadline()
        if deadline is None or deadline > end:
            driver.now = end
            return told
        driver.now = max(driver.now, deadline)


def _obeying(effect: Effect) -> list[Command]:
    """The reaction of an obedient RM to an effect."""
    if isinstance(effect, AllocationsReleased):
        gone = [
            release(r.app_id, r.key, why=r.termination, partition=effect.partition)
            for r in effect.releases
            if r.termination in ASKED
        ]
        return [releases(*gone, rm=effect.rm_id)] if gone else []
    if isinstance(effect, PredicatesAsked):
        nodes = [PredicateAnswer(asked.check) for asked in effect.checks]
        return [AnswerPredicates(rm_id=effect.rm_id, answers=nodes)]
    if isinstance(effect, PreemptionsAsked):
        victims = [
            PreemptionAnswer(asked.check, {node.node_id: node.start for node in asked.nodes})
            for asked in effect.checks
        ]
        return [AnswerPreemptions(rm_id=effect.rm_id, answers=victims)]
    return []
