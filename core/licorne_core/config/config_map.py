"""A configuration inside of a Kubernetes ConfigMap, as the older core is given it (spec § 2.8)."""

from licorne_core.config.document import Excerpt, Mapping, Node, Scalar
from licorne_core.config.report import Report
from licorne_core.values.errors import shown

FILE = "queues.yaml"
"""The key of the configuration among the data of a ConfigMap."""

_DATA = "data"
_PATH = f"{_DATA}.{FILE}"


def configuration_in(document: Node | None, text: str, report: Report) -> Excerpt | None:
    """The configuration in the ConfigMap that the text is, with a warning; None if it is none.

    Raises:
        ConfigError: it is a ConfigMap that has no configuration.
    """
    if not isinstance(document, Mapping) or not _is_config_map(document):
        return None
    data = document.entries[_DATA][1] if _DATA in document.entries else document
    entries = data.entries if isinstance(data, Mapping) and data is not document else {}
    value = entries[FILE][1] if FILE in entries else data
    if FILE not in entries or not isinstance(value, Scalar):
        message = f"a ConfigMap without a text '{FILE}' in its data: give the configuration alone"
        report.problem_at(message, _DATA, value.line, value.column)
        report.raise_problems()
        return None
    report.mark(_PATH, value.line, value.column)
    others = [shown(key) for key in entries if key != FILE]
    rest = f", and none of its other keys such as {others[0]}" if others else ""
    report.warn(f"this is a ConfigMap, of which {FILE} is read{rest}", _PATH)
    return _excerpt(value, text)


def _is_config_map(document: Mapping) -> bool:
    kind = document.entries["kind"][1] if "kind" in document.entries else None
    return (
        isinstance(kind, Scalar) and kind.text == "ConfigMap" and "apiVersion" in document.entries
    )


def _excerpt(value: Scalar, text: str) -> Excerpt:
    """The text of the value, with the places of its lines if each is a line of the whole text."""
    inner = value.text.splitlines()
    lines = text.splitlines()[value.line : value.line + len(inner)]
    first = next((number for number, line in enumerate(inner) if line), 0)
    indent = len(lines[first]) - len(inner[first]) if first < len(lines) else 0
    is_block = len(lines) == len(inner) and all(
        line[indent:] == own for line, own in zip(lines, inner, strict=True)
    )
    if is_block:
        return Excerpt(value.text, value.line, indent + 1, is_block=True)
    return Excerpt(value.text, value.line, value.column, is_block=False)
