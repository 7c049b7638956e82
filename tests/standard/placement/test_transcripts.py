"""Transcripts of placement: inputs, and the expected answer to each.

A transcript is a text file of entries: a line with a verb and its operands, for some verbs followed by
lines of YAML, then ``----``, the answer, and an empty line. Lines that begin with # before an entry are
comments. If `LICORNE_REWRITE` is set in the environment, the present answers are written to the files,
to be reviewed as a difference.

| verb | meaning |
|---|---|
| config | start with the following queues and rules |
| reload | reload the following queues and rules |
| submit ID [queue=Q] [user=U] [groups=A,B] [tag:T=V] | place an application |
| finish ID | remove the application |
| clean | remove empty queues, and list these |
| tree | list all queues |

The first line of a file names the acceptance rows that it covers.
"""

import os
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from licorne_core.messages.commands import NewApplication
from licorne_core.model.apps.admission import checked_user, is_forced
from licorne_core.model.apps.application import Application
from licorne_core.model.queues.tree import QueueTree, check_reload
from licorne_core.standard.placement.chain import Placer
from licorne_core.values.errors import ConfigError, Rejected
from licorne_core.values.ids import AppId, UserGroup
from licorne_core.values.rule_kinds import RULES
from support.core.trees import check_tree, outline, partition_config, queue_at, reload_tree, whole_tree

FILES = sorted((Path(__file__).parent / "transcripts").glob("*.txt"))


@dataclass
class Entry:
    """An input with its comments, and the answer in the file."""

    command: str
    comments: list[str]
    body: list[str] = field(default_factory=list)
    answer: list[str] = field(default_factory=list)

    def text(self, answer: list[str]) -> str:
        """The entry as text of a file, with this answer."""
        return "\n".join([*self.comments, self.command, *self.body, "----", *answer, ""])


def entries_of(lines: list[str]) -> Iterator[Entry]:
    """The entries of a transcript; an answer ends at an empty line."""
    entry: Entry | None = None
    comments: list[str] = []
    answering = False
    for line in lines:
        if entry is None:
            if line.startswith("#"):
                comments.append(line)
            elif line:
                entry = Entry(line, comments)
                comments = []
                answering = False
        elif answering and not line:
            yield entry
            entry = None
        elif line == "----":
            answering = True
        else:
            (entry.answer if answering else entry.body).append(line)
    if entry is not None:
        yield entry


def application(words: list[str]) -> NewApplication:
    """The application that a line describes."""
    said = dict(word.split("=", 1) for word in words[1:])
    groups = tuple(filter(None, said.get("groups", "").split(",")))
    return NewApplication(
        app_id=AppId(words[0]),
        queue_name=said.get("queue", ""),
        user=UserGroup(said.get("user", "john"), groups),
        tags={key[4:]: value for key, value in said.items() if key.startswith("tag:")},
    )


class World:
    """The queues and rules of one partition."""

    def __init__(self) -> None:
        """Start empty: the first entry is the configuration."""
        self.tree: QueueTree
        self.placer: Placer
        self.places: dict[str, str] = {}

    def answer(self, entry: Entry) -> list[str]:
        """Process the input; return the lines of the answer."""
        verb, *words = entry.command.split()
        try:
            answer = self._do(verb, words, "\n".join(entry.body))
        except (Rejected, ConfigError) as refusal:
            return f"refused: {refusal}".splitlines()
        check_tree(self.tree)
        return answer

    def _do(self, verb: str, words: list[str], body: str) -> list[str]:
        match verb:
            case "config":
                config = partition_config(body)
                self.placer = Placer(config.placement_rules)
                self.tree = whole_tree(config.root)
                return ["ok"]
            case "reload":
                config = partition_config(body)
                problems = check_reload(self.tree, config.root)
                if problems:
                    raise ConfigError(problems)
                self.placer = Placer(config.placement_rules)
                reload_tree(self.tree, config.root)
                return ["ok"]
            case "submit":
                return [self._submit(application(words))]
            case "finish":
                del queue_at(self.tree, self.places[words[0]]).applications[AppId(words[0])]
                return ["ok"]
            case "clean":
                return [queue.path for queue in self.tree.clean()]
            case "tree":
                return outline(self.tree)
        raise ValueError(f"unknown verb {verb}")

    def _submit(self, app: NewApplication) -> str:
        known = {queue.path for queue in self.tree.walk()}
        checked = replace(app, user=checked_user(app, forced=is_forced(app)))
        try:
            leaf = self.placer.place(checked, self.tree)
        except Rejected:
            assert known == {queue.path for queue in self.tree.walk()}
            raise
        leaf.applications[app.app_id] = Application(app.app_id, leaf.path, checked.user, app.tags, 0.0)
        self.places[app.app_id] = leaf.path
        return leaf.path if leaf.path in known else f"{leaf.path} (created)"


def rows_of(file: Path) -> list[int]:
    """The acceptance rows that the first line of a transcript names."""
    first = file.read_text(encoding="utf-8").splitlines()[0]
    assert first.startswith("# rows "), f"{file.name} does not begin with its rows"
    return [int(number) for number in first.removeprefix("# rows ").split()]


def test_every_kind_of_rule_is_in_a_transcript() -> None:
    """Each kind of placement rule is in a transcript."""
    shown = {
        line.split("name:")[1].strip()
        for file in FILES
        for line in file.read_text(encoding="utf-8").splitlines()
        if "name:" in line
    }
    assert RULES.keys() <= shown


@pytest.mark.parametrize(
    "file", [pytest.param(file, id=file.stem, marks=pytest.mark.row(*rows_of(file))) for file in FILES]
)
def test_the_answers_equal_those_of_the_transcript(file: Path) -> None:
    """Every present answer equals the answer in the transcript."""
    lines = file.read_text(encoding="utf-8").splitlines()
    entries = list(entries_of(lines))
    world = World()
    answers = [world.answer(entry) for entry in entries]
    if os.environ.get("LICORNE_REWRITE"):
        told = [entry.text(answer) for entry, answer in zip(entries, answers, strict=True)]
        file.write_text("\n".join(told), encoding="utf-8")
        return
    for entry, answer in zip(entries, answers, strict=True):
        assert [entry.command, *answer] == [entry.command, *entry.answer]
