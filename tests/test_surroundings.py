"""Tests do not depend on the settings of the terminal, or on other servers."""

import os
import subprocess
import sys
import urllib.request
from urllib.error import URLError

import grpc
import pytest

from licorne_cli.commands import main
from licorne_cli.connection.contexts import PATH_VARIABLE
from licorne_cli.connection.target import VARIABLES
from licorne_cli.server.healthcheck import HERE
from support.surroundings import CLOSED, is_meant_for_others


def test_variables_for_users_are_unset() -> None:
    """Every variable of ours is unset, including future ones, except for those of the tests."""
    assert all(map(is_meant_for_others, (*VARIABLES.values(), "LICORNE_NEW", "HTTPS_PROXY")))
    assert not any(map(is_meant_for_others, ("LICORNE_REWRITE", "LICORNE_HELM", "HOME", "PATH")))


def test_processes_of_tests_have_no_such_variable() -> None:
    """Neither this process nor one that it starts has such a variable, except for the empty contexts."""
    listed = "import os; print(*os.environ)"
    child = subprocess.run([sys.executable, "-c", listed], capture_output=True, check=True)
    for names in (os.environ, child.stdout.decode().split()):
        ours = {name for name in names if name.startswith("LICORNE_")}
        assert set(filter(is_meant_for_others, ours)) == {PATH_VARIABLE}


@pytest.mark.parametrize("command", [["version"], ["queues"], ["rms"], ["healthcheck"]])
def test_a_command_without_a_target_fails_the_test(command: list[str]) -> None:
    """Whether or not a server has the default address, a command that connects to it fails the test."""
    with pytest.raises(pytest.fail.Exception, match="somebody's own server"):
        main(command)


def test_a_client_of_the_default_address_fails_the_test() -> None:
    """Channels of the client and HTTP readers are guarded too, and other addresses are not."""
    with pytest.raises(pytest.fail.Exception, match="localhost:7070"):
        grpc.aio.insecure_channel("localhost:7070")
    with pytest.raises(pytest.fail.Exception, match=r"127\.0\.0\.1:9080"):
        urllib.request.urlopen(HERE[0])
    with pytest.raises(URLError):
        urllib.request.urlopen(f"http://{CLOSED}/")
