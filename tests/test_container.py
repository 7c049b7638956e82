"""The image: its references exist, and its commands are valid."""

import json
import re
from dataclasses import replace
from pathlib import Path

from licorne_cli.commands import parser_for
from licorne_server.process.build_info import COMPILED, PURE, BuildInfo
from support.deployment import OURS, mounts, services

ROOT = Path(__file__).parent.parent


def instructions() -> list[tuple[str, str]]:
    """The instructions of the Dockerfile, each with the remainder of its line."""
    text = re.sub(r"^\s*#.*\n", "", (ROOT / "Dockerfile").read_text(), flags=re.MULTILINE)
    lines = text.replace("\\\n", " ").splitlines()
    pairs = (line.partition(" ") for line in lines if line.strip())
    return [(word, re.sub(r"\s+", " ", rest).strip()) for word, _, rest in pairs]


def last_stage() -> dict[str, str]:
    """The instructions in force in the final image, which are the last of each kind."""
    whole = instructions()
    begin = max(place for place, (word, _) in enumerate(whole) if word == "FROM")
    return dict(whole[begin:])


def test_the_image_has_the_compiled_form() -> None:
    """The build fails unless the code is compiled, and the image's Python is optimized."""
    [pattern] = [
        found[1]
        for word, rest in instructions()
        if word == "RUN" and (found := re.search(r"licorne version --client \| grep '(.*)'$", rest))
    ]
    info = BuildInfo(version="1.0.0", form=COMPILED, python="CPython 3.11.9", optimized=True)
    assert re.search(pattern, str(info))
    assert not re.search(pattern, str(replace(info, form=PURE)))
    assert not re.search(pattern, str(replace(info, optimized=False)))


def test_copied_files_exist() -> None:
    """All files that are copied into the image exist, and are sent to the builder."""
    sent = (ROOT / ".dockerignore").read_text().split()
    assert "*" in sent
    sources = [
        source
        for word, rest in instructions()
        if word == "COPY" and "--from=" not in rest
        for source in rest.split()[:-1]
    ]
    assert sources
    for source in sources:
        assert (ROOT / source).exists(), source
        assert f"!{source}" in sent


def test_the_image_is_not_root_and_has_a_health_check() -> None:
    """The image runs under a number that is not root's, and its check and commands are Licorne's."""
    stage = last_stage()
    assert re.fullmatch(r"[1-9]\d*:[1-9]\d*", stage["USER"])
    assert json.loads(stage["ENTRYPOINT"]) == ["licorne"]
    _, _, check = stage["HEALTHCHECK"].partition("CMD ")
    program, *arguments = json.loads(check)
    assert (program, parser_for(arguments[0]).parse_args(arguments).command) == (
        "licorne",
        "healthcheck",
    )
    default = json.loads(stage["CMD"])
    assert parser_for(default[0]).parse_args(default).command == "serve"


def test_volumes_belong_to_the_user_of_the_image() -> None:
    """A volume inherits the owner of its mount point: the image's user."""
    stage = last_stage()
    words = stage["RUN"].split()
    owner, group = words[words.index("-o") + 1], words[words.index("-g") + 1]
    assert f"{owner}:{group}" == stage["USER"]
    mounted = {
        mount.path
        for service in services().values()
        if service["image"] == OURS
        for mount in mounts(service)
        if mount.is_volume
    }
    assert mounted == {word for word in words if word.startswith("/")}
