"""Files for `licorne serve --settings`, for settings without a flag."""

from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from zlib import crc32

from licorne_server.commands.settings.kinds import written

_FOLDER = TemporaryDirectory(prefix="licorne-settings-")


def settings_file(**tables: Mapping[str, object]) -> tuple[str, str]:
    """The flag with a file of these tables, which is removed when this process ends."""
    lines = []
    for table, keys in tables.items():
        lines += [f"[{table}]", *(f"{key} = {written(value)}" for key, value in keys.items())]
    text = "\n".join(lines)
    file = Path(_FOLDER.name) / f"{crc32(text.encode())}.toml"
    file.write_text(text, encoding="utf-8")
    return "--settings", str(file)
