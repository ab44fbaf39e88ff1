"""`metaquorum certs`: what it writes lets TLS peers trust each other, and nobody else."""

import datetime
import ssl
import stat
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from cryptography import x509

from admin.cli.main import group


def certs(*arguments: str | Path) -> Result:
    return CliRunner().invoke(group, ["certs", *map(str, arguments)])


def created(*arguments: str | Path) -> str:
    done = certs(*arguments)
    assert done.exit_code == 0, done.output
    return done.stdout


def refusal(*arguments: str | Path) -> str:
    done = certs(*arguments)
    assert done.exit_code == 2, done.output
    return done.stderr.splitlines()[-1].removeprefix("Error: ")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """An authority."""
    created("create-authority", "--dir", tmp_path / "ca")
    return tmp_path / "ca"


def node(folder: Path, name: str = "node-1", *hosts: str) -> Path:
    given = [word for host in hosts or ("node1", "127.0.0.1") for word in ("--host", host)]
    created("create-node", "--dir", folder, "--name", name, *given)
    return folder / f"{name}.pem"


def client(folder: Path, name: str = "alice") -> Path:
    created("create-client", "--dir", folder, "--name", name)
    return folder / f"{name}.pem"


def context(purpose: int, own: Path, trusted: Path) -> ssl.SSLContext:
    """Both sides present a certificate and check all that OpenSSL can check."""
    found = ssl.SSLContext(purpose)
    found.verify_mode = ssl.CERT_REQUIRED
    found.verify_flags |= ssl.VERIFY_X509_STRICT
    found.load_cert_chain(own)
    found.load_verify_locations(trusted)
    return found


def handshake(server: ssl.SSLContext, client: ssl.SSLContext, host: str) -> None:
    """Shake hands in memory; raises `ssl.SSLError`."""
    there, back = ssl.MemoryBIO(), ssl.MemoryBIO()
    ends = [
        client.wrap_bio(back, there, server_hostname=host),
        server.wrap_bio(there, back, server_side=True),
    ]
    # Two round trips, and one more for the client's certificate to be read.
    for _ in range(3):
        for end in ends:
            try:
                end.do_handshake()
            except ssl.SSLWantReadError:
                continue
    for end in ends:
        end.do_handshake()


@pytest.mark.parametrize("host", ["node1", "127.0.0.1"])
def test_a_node_and_a_client_trust_each_other(folder: Path, host: str) -> None:
    server = context(ssl.PROTOCOL_TLS_SERVER, node(folder), folder / "ca.pem")
    handshake(server, context(ssl.PROTOCOL_TLS_CLIENT, client(folder), folder / "ca.pem"), host)
    # Nodes connect to each other with the same certificates.
    other = node(folder, "node-2", "node2")
    handshake(server, context(ssl.PROTOCOL_TLS_CLIENT, other, folder / "ca.pem"), host)


def test_neither_another_host_nor_another_authority_nor_a_client_is_a_node(
    folder: Path, tmp_path: Path
) -> None:
    trusted = folder / "ca.pem"
    alice = context(ssl.PROTOCOL_TLS_CLIENT, client(folder), trusted)
    good = context(ssl.PROTOCOL_TLS_SERVER, node(folder), trusted)
    with pytest.raises(ssl.SSLCertVerificationError, match="Hostname mismatch"):
        handshake(good, alice, "node2")
    created("create-authority", "--dir", tmp_path / "other")
    foreign = node(tmp_path / "other")
    with pytest.raises(ssl.SSLCertVerificationError):
        handshake(context(ssl.PROTOCOL_TLS_SERVER, foreign, trusted), alice, "node1")
    posing = context(ssl.PROTOCOL_TLS_SERVER, client(folder, "node1"), trusted)
    with pytest.raises(ssl.SSLCertVerificationError, match="purpose"):
        handshake(posing, alice, "node1")


def test_keys_are_private_and_the_settings_are_printed(folder: Path) -> None:
    said = created("create-client", "--dir", folder, "--name", "alice")
    assert said == (
        f"ssl.keystore.location={folder}/alice.pem\nssl.truststore.location={folder}/ca.pem\n"
    )
    modes = {each.name: stat.S_IMODE(each.stat().st_mode) for each in folder.iterdir()}
    assert modes == {"ca.pem": 0o644, "ca.key": 0o600, "alice.pem": 0o600}
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700


def test_nothing_is_overwritten(folder: Path) -> None:
    path = node(folder)
    before = {each: each.read_bytes() for each in folder.iterdir()}
    again = ("--dir", folder, "--name", "node-1", "--host", "node1")
    assert refusal("create-node", *again) == f"{path} exists; nothing was overwritten"
    assert "ca.pem exists; nothing was overwritten" in refusal("create-authority", "--dir", folder)
    # Nor is the key of an authority whose certificate was moved away.
    (folder / "ca.pem").rename(folder / "moved.pem")
    assert "ca.key exists; nothing was overwritten" in refusal("create-authority", "--dir", folder)
    assert before[folder / "ca.key"] == (folder / "ca.key").read_bytes()
    assert before[path] == path.read_bytes()
    (folder / "moved.pem").rename(folder / "ca.pem")
    # A rotation keeps the name and writes beside it.
    created("create-node", *again, "--file", folder / "next.pem")
    assert (folder / "next.pem").read_bytes() != path.read_bytes()


def test_no_certificate_outlives_its_authority(tmp_path: Path) -> None:
    created("create-authority", "--dir", tmp_path, "--days", "10")
    ends = [
        x509.load_pem_x509_certificate(each.read_bytes()).not_valid_after_utc
        for each in (tmp_path / "ca.pem", node(tmp_path))
    ]
    assert ends[0] == ends[1]
    created("create-client", "--dir", tmp_path, "--name", "soon", "--days", "2")
    soon, authority = (
        x509.load_pem_x509_certificate((tmp_path / name).read_bytes())
        for name in ("soon.pem", "ca.pem")
    )
    # They were made at different times, perhaps in different seconds.
    lives = [each.not_valid_after_utc - each.not_valid_before_utc for each in (soon, authority)]
    assert lives[1] - lives[0] == datetime.timedelta(days=8)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("create-node", "--name", "a", "--host", "no such host"), "'no such host' is neither a"),
        (("create-node", "--name", "../a", "--host", "a"), "'../a' is no name for a certificate"),
        (("create-client", "--name", "é"), "'é' is no name for a certificate"),
        (("create-client", "--name", "ca"), "ca.pem exists; nothing was overwritten"),
        (("create-client", "--name", "metaquorum-ca"), "is the name of the authority itself"),
    ],
)
def test_names_and_hosts_are_checked(
    folder: Path, arguments: tuple[str, ...], message: str
) -> None:
    assert message in refusal(arguments[0], "--dir", folder, *arguments[1:])
    assert sorted(each.name for each in folder.iterdir()) == ["ca.key", "ca.pem"]


def test_without_an_authority_there_is_no_certificate(tmp_path: Path) -> None:
    said = refusal("create-client", "--dir", tmp_path, "--name", "alice")
    assert said == (
        f"{tmp_path}/ca.pem does not exist: run `metaquorum certs create-authority` first"
    )
