"""The queue of commands for the core, and its order."""

from licorne_core.messages.commands import AnswerPredicates, Command, PredicateAnswer
from licorne_core.values.ids import RmId
from licorne_server.engine.inbox import MOST_ANSWERS, Entry, Inbox
from support.core import builders


def command(rm: str, name: str) -> Command:
    """A command of an RM; the name of its node identifies it."""
    return builders.nodes(builders.node(name, vcore=1), rm=rm)


def taken(inbox: Inbox) -> list[Command]:
    """All commands in the order of their handling."""
    commands = []
    while inbox.commands.size:
        commands.append(inbox.commands.take().command)
    return commands


def test_rms_take_turns() -> None:
    """RMs take turns, so a command of another RM waits for only one of theirs."""
    many = [command("many", f"n{number}") for number in range(3)]
    one, other = command("one", "n"), command("one", "m")
    inbox = Inbox()
    for each in (*many, one, other):
        inbox.put(Entry(each))
    assert inbox.size == 5
    assert taken(inbox) == [many[0], one, many[1], other, many[2]]
    assert inbox.size == 0


def test_a_remainder_precedes_commands_of_its_rm_only() -> None:
    """The remainder of a command precedes other commands of its RM, and takes no turn from other RMs."""
    first, rest, one = command("many", "n1"), command("many", "rest"), command("one", "n")
    inbox = Inbox()
    inbox.put(Entry(first))
    inbox.put(Entry(one))
    inbox.put_first(Entry(rest))
    assert taken(inbox) == [rest, one, first]


def test_a_number_of_answers_of_each_rm_precede_commands() -> None:
    """Answers precede commands because of their deadlines; excess ones of an RM wait for the next round."""
    rms = [RmId("many"), RmId("one")]
    inbox = Inbox()
    inbox.put(Entry(command("one", "n")))
    for number in range(MOST_ANSWERS + 2):
        inbox.put(Entry(AnswerPredicates(rm_id=rms[0], answers=[PredicateAnswer(number)])))
    inbox.put(Entry(AnswerPredicates(rm_id=rms[1], answers=[PredicateAnswer(1)])))
    first = [entry.command for entry in inbox.take_answers()]
    assert len(first) == MOST_ANSWERS + 1
    answered = [one.rm_id for one in first if isinstance(one, AnswerPredicates)]
    assert answered[:2] == rms
    assert len(inbox.take_answers()) == 2
    assert inbox.size == 1


def test_everything_in_the_queue_can_be_taken() -> None:
    """An engine that stops takes answers, commands and remainders."""
    inbox = Inbox()
    inbox.put(Entry(command("one", "n")))
    inbox.put(Entry(AnswerPredicates(rm_id=RmId("one"), answers=[])))
    inbox.put_first(Entry(command("two", "n")))
    assert len(inbox.take_all()) == 3
    assert inbox.size == 0
