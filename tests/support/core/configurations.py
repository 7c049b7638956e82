"""Short ways to load a configuration and to see what was wrong with it."""

from textwrap import dedent, indent

from licorne_core.config import load
from licorne_core.config.schema import Configuration, PartitionConfig, QueueConfig
from licorne_core.values.errors import ConfigError, Problem


def partition_text(body: str) -> str:
    """A configuration of one partition; the body is what stands below its name."""
    return f"partitions:\n  - name: default\n{indent(dedent(body).strip(), '    ')}\n"


def loaded(text: str, *, strict: bool = False) -> Configuration:
    """The configuration of a text that is written with the test's own indentation."""
    return load(dedent(text), strict=strict)


def partition(body: str) -> PartitionConfig:
    """The only partition, made from what stands below its name."""
    return load(partition_text(body)).partitions[0]


def root(body: str) -> QueueConfig:
    """The root queue of the only partition."""
    return partition(body).root


def problems(text: str, *, strict: bool = False) -> tuple[Problem, ...]:
    """What is wrong with the text; nothing when it can be loaded."""
    try:
        load(dedent(text), strict=strict)
    except ConfigError as error:
        return error.problems
    return ()


def messages(body: str, *, strict: bool = False) -> list[str]:
    """The messages about a partition, made from what stands below its name."""
    return [problem.message for problem in problems(partition_text(body), strict=strict)]


def complaint(body: str, *, strict: bool = False) -> str:
    """The only message about a partition."""
    (message,) = messages(body, strict=strict)
    return message


def find(queue: QueueConfig, path: str) -> QueueConfig:
    """The queue at a path that begins with the queue's own name."""
    for name in path.split(".")[1:]:
        (queue,) = [child for child in queue.queues if child.name == name]
    return queue
