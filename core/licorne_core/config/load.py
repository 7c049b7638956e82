"""From text to a configuration that can be used, or to everything that is wrong with it."""

from hashlib import sha256

from licorne_core.config.document import Scalar, read_document
from licorne_core.config.limits import check_limit_hierarchy, check_limits
from licorne_core.config.parse import read_partitions
from licorne_core.config.placement_check import check_placement
from licorne_core.config.reader import Cursor
from licorne_core.config.report import Report
from licorne_core.config.schema import Configuration, PartitionConfig, QueueConfig
from licorne_core.config.validate import check_max_applications, check_resources
from licorne_core.patterns import Pattern

DEFAULT_CONFIG = """\
partitions:
  - name: default
    placementrules:
      - name: tag
        value: namespace
        create: true
    queues:
      - name: root
        submitacl: '*'
"""

_SUM = "checksum:[ \\t]*['\"]?[0-9a-fA-F]{64}['\"]?"
_CHECKSUM = Pattern(f"(?m)^[ \\t]*{_SUM}[ \\t]*\\r?\\n|{_SUM}")


def load(text: str, *, strict: bool = False) -> Configuration:
    """Read and validate a configuration (spec §§ 2.1 to 2.6).

    A text with nothing in it, or with nothing but comments, means the built-in default. Raises
    `ConfigError` with every problem found; in strict mode what is dubious is a problem as well.
    """
    report = Report(strict=strict)
    document = read_document(text, report)
    if document is None or (isinstance(document, Scalar) and document.plain and not document.text):
        return load(DEFAULT_CONFIG)
    partitions = read_partitions(Cursor(document, "", report))
    for partition in partitions:
        _check(partition, report)
    report.raise_problems()
    return Configuration(
        partitions=partitions,
        checksum=checksum_of(text),
        text=text,
        warnings=report.warnings,
    )


def checksum_of(text: str) -> str:
    """Upper-case hex SHA-256 of the text without any ``checksum`` in it (spec § 2.1.4).

    A line that says nothing else is left out as a whole, so that adding it changes nothing.
    """
    return sha256(_CHECKSUM.remove(text).encode("utf-8", "replace")).hexdigest().upper()


def _check(partition: PartitionConfig, report: Report) -> None:
    """What must hold between the things of one partition."""
    _check_all_limits(partition.root, report)
    check_resources(partition.root, report)
    check_max_applications(partition.root, report)
    check_limit_hierarchy(partition.root, report)
    check_placement(partition.placement_rules, partition.root, report)


def _check_all_limits(queue: QueueConfig, report: Report) -> None:
    check_limits(queue, report)
    for child in queue.queues:
        _check_all_limits(child, report)
