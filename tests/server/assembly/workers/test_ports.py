"""Addresses that workers share."""

import socket

import pytest

from licorne_server.assembly.workers.supervisor import Reservation
from licorne_server.process.coordination import Coordination
from licorne_server.process.settings import Address, Settings, SettingsError
from licorne_server.store.coordination.joining import http_url

ANY = Address(host="127.0.0.1", port=0)


def test_a_worker_advertises_no_shared_address() -> None:
    """A worker advertises no address, because a shared port may lead to any worker."""
    options = Coordination(backend="local", advertise="unix:/s/1.grpc")
    assert http_url(Settings(coordination=options), "0.0.0.0:9080") == ""


def listener(port: int, *, shares: bool) -> socket.socket:
    """A socket that listens on the port of this machine."""
    made = socket.socket()
    made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, int(shares))
    try:
        made.bind(("127.0.0.1", port))
        made.listen()
    except OSError:
        made.close()
        raise
    return made


def test_workers_share_a_reserved_port() -> None:
    """Port 0 becomes a free port for several workers, which no other program gets."""
    reservation = Reservation(ANY)
    port = reservation.address.port
    assert port > 0
    with listener(port, shares=True), listener(port, shares=True):
        with pytest.raises(OSError, match="in use"):
            listener(port, shares=False)
        with pytest.raises(SettingsError, match="Address already in use"):
            Reservation(reservation.address)
    reservation.close()
    listener(port, shares=False).close()


@pytest.mark.parametrize("shares", [True, False])
def test_a_port_of_another_program_is_refused(shares: bool) -> None:
    """A port that another program shares is refused, because connections would be divided."""
    with listener(0, shares=shares) as other:
        taken = ANY.with_port(other.getsockname()[1])
        with pytest.raises(SettingsError) as refused:
            Reservation(taken)
    assert str(refused.value) == f"cannot listen on {taken}: Address already in use"


def test_all_addresses_of_a_name_have_the_same_port() -> None:
    """A name with several addresses, such as `localhost`, is reserved on each of them."""
    reservation = Reservation(Address(host="localhost", port=0))
    port = reservation.address.port
    found = {where[4][:2] for where in socket.getaddrinfo("localhost", port, type=socket.SOCK_STREAM)}
    for host, _ in found:
        family = socket.AF_INET6 if ":" in str(host) else socket.AF_INET
        with socket.socket(family) as other, pytest.raises(OSError, match="in use"):
            other.bind((host, port))
    reservation.close()
