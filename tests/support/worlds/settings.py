"""What one RM of a world says about itself: configurations, switches, and whether it has a say."""

from random import Random

from licorne_core.messages.commands import Command, FailMode, PredicatePolicy
from support.core.builders import register, reload
from support.worlds.configs import ConfigMaker, text_of

REFUSED = text_of([{"name": "default", "queues": [{"name": "root", "resources": {"max": {}}}]}])
"""A configuration that nobody takes: root must not have a maximum."""


class RmSettings:
    """Draws the partitions of one RM, and what is configured there."""

    def __init__(self, rng: Random, rm: str, *, hides: bool, preempts: bool) -> None:
        """Draw what stays as it is: which partitions, the shape of queues, who has a say."""
        self.rng = rng
        self.rm = rm
        self.hides = hides
        self.preempts = preempts
        names = ["default", "second"] if rng.random() < 0.3 else ["default"]
        self.creates = rng.random() < 0.4
        self.makers = {
            name: ConfigMaker(
                rng,
                creates=self.creates,
                hides=hides and not self.creates,
                preempts=preempts,
            )
            for name in names
        }
        self.predicates = self._policy()

    def registration(self) -> Command:
        """The RM introduces itself."""
        return register(self._config(), rm=self.rm, extra=self._extra(), predicates=self.predicates)

    def reload(self) -> Command:
        """New guarantees and maxima, sometimes new settings too."""
        for maker in self.makers.values():
            maker.resettle()
        if self.rng.random() < 0.1:
            return reload(REFUSED, rm=self.rm)
        return reload(self._config(all_partitions=self.rng.random() < 0.7), rm=self.rm, extra=self._extra())

    def _config(self, *, all_partitions: bool = True) -> str:
        names = list(self.makers) if all_partitions or not self.hides else ["default"]
        return text_of([self.makers[name].partition(name) for name in names])

    def _policy(self) -> PredicatePolicy | None:
        """Whether the RM has a say in where its asks go."""
        if self.rng.random() < 0.5:
            return None
        fail_mode = self.rng.choice(list(FailMode))
        deadline = self.rng.choice([0.5, 2.0, 6.0])
        judges = self.preempts and self.rng.random() < 0.6
        return PredicatePolicy(deadline=deadline, fail_mode=fail_mode, judges_victims=judges)

    def _extra(self) -> dict[str, str]:
        """Mostly nothing, which leaves in force what was."""
        text = self.rng.choice(["", "", "", "", "true", "false"])
        return {"stateaware-as-fifo": text} if text else {}

    def partition(self) -> str:
        """One of the RM's own, now and then by its full name."""
        name = self.rng.choice(list(self.makers))
        return name if self.rng.random() < 0.95 else f"[{self.rm}]{name}"

    def any_partition(self) -> str:
        """Now and then one that is not there, or is another RM's."""
        if self.rng.random() < 0.97:
            return self.partition()
        return self.rng.choice(["third", "[rm0]default", "[rm1]default", "[rm]default"])
