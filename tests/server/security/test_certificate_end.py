"""A server with TLS knows until when its certificate is valid."""

import os
import shutil
from pathlib import Path

import aiohttp
import pytest
from structlog.testing import capture_logs

from licorne_server.process.settings import Settings, Tls
from licorne_server.security.certificate_end import CertificateEnd
from licorne_server.serving.app import running
from licorne_server.testing.serving import LOOPBACK
from support.docs.pages import ROOT

FILES = ROOT / "tests/data/tls"
IN_2126 = 4_948_830_377

# A certificate that was over before it was made, signed with its own key.
ENDED = 1_795_318_842
OVER = """\
-----BEGIN CERTIFICATE-----
MIIBGDCBvwIUIMM1ZKDDT+Dnwriii5wS+cqS0/IwCgYIKoZIzj0EAwIwDzENMAsG
A1UEAwwEb3ZlcjAeFw0yNjExMjMwMzQwNDJaFw0yNjExMjIwMzQwNDJaMA8xDTAL
BgNVBAMMBG92ZXIwWTATBgcqhkjOPQIBBggqhkjOPQMBBwNCAARmfLE8WdYh2GaW
98xJP40svteuHKXeKi14eN4azqYF0XVaDS9YVHQ7qg5tPFV19YQoaO9dVIuOjM84
5kjcYwEqMAoGCCqGSM49BAMCA0gAMEUCIQCk2CrZa4mCaQ/x4n/IifPiP2MD5Xfr
FhIBe+jWvIuWOQIgQEkNd5vuMNkw89zpk5Aoof3gwqdSniy/FiVupQYklks=
-----END CERTIFICATE-----
"""
OVER_KEY = """\
-----BEGIN EC PRIVATE KEY-----
MHcCAQEEIL8kvFbEYVz+WoI4xkiRWjcVpaofyLmH63tfnCZvmG2roAoGCCqGSM49
AwEHoUQDQgAEZnyxPFnWIdhmlvfMST+NLL7Xrhyl3ioteHjeGs6mBdF1Wg0vWFR0
O6oObTxVdfWEKGjvXVSLjozPOOZI3GMBKg==
-----END EC PRIVATE KEY-----
"""


@pytest.fixture
def tls(tmp_path: Path) -> Tls:
    """A certificate and its key, as copies."""
    for name in ("server.pem", "server.key"):
        shutil.copy(FILES / name, tmp_path / name)
    return Tls(cert=tmp_path / "server.pem", key=tmp_path / "server.key", client_ca=None)


def test_the_end_is_read_again_when_the_file_changes(tls: Tls) -> None:
    """Another certificate has another end, one that is over too; without TLS there is none."""
    end = CertificateEnd(tls)
    assert end.time() == IN_2126
    assert CertificateEnd(None).time() == 0
    tls.cert.write_text(OVER)
    tls.key.write_text(OVER_KEY)
    os.utime(tls.cert, ns=(1, 1))
    assert end.time() == ENDED


def test_files_that_are_no_certificates(tls: Tls) -> None:
    """Whatever is in the file, there is a line in the log and no end, until a good one comes."""
    end = CertificateEnd(tls)
    good = tls.cert.read_bytes()
    for number, bad in enumerate((b"", b"nothing", good[:300]), 1):
        tls.cert.write_bytes(bad)
        os.utime(tls.cert, ns=(number, number))
        with capture_logs() as lines:
            assert end.time() == 0
        assert [line["event"] for line in lines] == ["end of certificate not read"]
    tls.cert.unlink()
    assert end.time() == 0
    tls.cert.write_bytes(good)
    os.utime(tls.cert, ns=(9, 9))
    assert end.time() == IN_2126


async def test_a_scrape_has_the_end(tls: Tls) -> None:
    """It is there with TLS, and not without."""
    for given, shown in ((tls, True), (None, False)):
        async with running(Settings(listen=LOOPBACK, http=LOOPBACK, tls=given, http_insecure=True)) as server:
            url = f"http://{server.http_address}/metrics"
            async with aiohttp.ClientSession() as client, client.get(url) as answer:
                text = await answer.text()
        line = f"\nlicorne_tls_certificate_end_timestamp_seconds {float(IN_2126)}\n"
        assert (line in text) is shown
