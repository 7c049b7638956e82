"""The running configuration as YAML or JSON, and the validation of a new one (spec §§ 12.4, 13.2)."""

import yaml
from yaml import MappingNode, Node, ScalarNode, SequenceNode

from licorne_core.config import load
from licorne_core.config.keys import SWITCHES
from licorne_core.values.errors import ConfigError
from licorne_core.views.partitions import RmReport
from licorne_server.http.stream import ENCODER, JsonObject
from licorne_server.wire.features import names

_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_DUMPER = getattr(yaml, "CSafeDumper", yaml.SafeDumper)
_TEXT = "tag:yaml.org,2002:str"

# The JSON form has the older core's spelling of the keys. Names that users choose, such as those of
# resources and properties, are not changed.
_KEYS = {
    "adminacl": "AdminACL",
    "childtemplate": "ChildTemplate",
    "maxapplications": "MaxApplications",
    "maxresources": "MaxResources",
    "nodesortpolicy": "NodeSortPolicy",
    "placementrules": "PlacementRules",
    "resourceweights": "ResourceWeights",
    "submitacl": "SubmitACL",
    "usergroupresolver": "UserGroupResolver",
    **names("CONFIG_KEYS"),
}
_USER_KEYED = {"guaranteed", "max", "maxresources", "properties", "resourceweights"}
_BOOLEANS = {"create", "enabled", "parent", *(key.name for key in SWITCHES)}


def config_yaml(rm: RmReport) -> str:
    """The running configuration of an RM as YAML, with its checksum, and, unless empty, ``extra``."""
    root = _document(rm.config)
    if isinstance(root, MappingNode):
        root.value = [pair for pair in root.value if pair[0].value != "checksum"]
        root.value.append((_text("checksum"), _text(rm.checksum)))
        if rm.extra_config:
            pairs = [(_text(key), _text(value)) for key, value in rm.extra_config.items()]
            extra = MappingNode("tag:yaml.org,2002:map", pairs, flow_style=False)
            root.value.append((_text("extra"), extra))
    text: str = yaml.serialize(root, Dumper=_DUMPER)
    return text


def config_json(rm: RmReport) -> str:
    """The running configuration of an RM as the text of a JSON object.

    The text may have some megabytes. It is encoded value by value: a single call of the encoder
    would hold the interpreter lock, and block the loop.
    """
    root = _to_json(_document(rm.config), "")
    partitions = root.get("Partitions", []) if isinstance(root, dict) else []
    extra = dict(rm.extra_config)
    shown = {"Partitions": partitions, "Checksum": rm.checksum, "Extra": extra}
    return "".join(ENCODER.iterencode(shown))


def validation(body: bytes) -> JsonObject:
    """The validation of a configuration, with all its problems.

    `checksumMatch` is True if the text contains its own checksum. The function reads only the text, so it can
    run in a thread. An empty text is not a configuration (spec 2.5 row 1).
    """
    try:
        text = body.decode("utf-8")
        configuration = load(text, required=True)
    except UnicodeDecodeError as error:
        return _refused(f"the configuration is not UTF-8 text: byte {error.start}")
    except ConfigError as error:
        return _refused(str(error))
    return {
        "allowed": True,
        "reason": "",
        "checksum": configuration.checksum,
        "checksumMatch": _own_checksum(configuration.text) == configuration.checksum,
    }


def _refused(reason: str) -> JsonObject:
    return {"allowed": False, "reason": reason, "checksum": "", "checksumMatch": False}


def _own_checksum(text: str) -> str:
    root = _document(text)
    pairs = root.value if isinstance(root, MappingNode) else []
    return next((value.value for key, value in pairs if key.value == "checksum"), "")


def _document(text: str) -> Node | None:
    """The YAML nodes of a text. The core has accepted the text, so its size and depth are bounded."""
    node: Node | None = yaml.compose(text, Loader=_LOADER)
    return node


def _text(value: str) -> ScalarNode:
    return ScalarNode(_TEXT, value)


def _to_json(node: Node | None, key: str) -> object:
    if isinstance(node, MappingNode):
        if key in _USER_KEYED:
            return {name.value: _number_or_text(key, value.value) for name, value in node.value}
        return {
            _KEYS.get(name.value, name.value.capitalize()): _to_json(value, name.value)
            for name, value in node.value
        }
    if isinstance(node, SequenceNode):
        items = [_to_json(item, "") for item in node.value]
        # A parent rule in YAML may be a list of one rule; in JSON it is an object.
        return items[0] if key == "parent" and len(items) == 1 else items
    if isinstance(node, ScalarNode):
        return _scalar(key, node.value)
    return None


def _scalar(key: str, value: str) -> object:
    if key in _BOOLEANS:
        return value.lower() == "true"
    if key == "nodesortpolicy":
        return {"Type": value}
    return int(value) if key == "maxapplications" and value.isdecimal() else value


def _number_or_text(key: str, value: str) -> object:
    return float(value) if key == "resourceweights" else value
