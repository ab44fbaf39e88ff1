"""`metaquorum local --secure`, and the commands against it, all as real processes."""

import stat
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from ssl import create_default_context

import pytest

from tests.process.local_process import Done, LocalProcess, local, metaquorum

pytestmark = pytest.mark.process


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalProcess]:
    folder = tmp_path_factory.mktemp("clusters") / "secure"
    sizes = ("--controllers", "3", "--brokers", "2", "--base-port", "0")
    with local(folder, "--secure", *sizes) as running:
        yield running


def ask(cluster: LocalProcess, *command: str, client: Path, stdin: bytes = b"") -> Done:
    """Run a command against the brokers, with this client.properties."""
    server = ("--bootstrap-server", cluster.servers, "--command-config", str(client))
    return metaquorum(*command, *server, "--timeout", "20s", stdin=stdin)


def altered(folder: Path, client: Path, old: str, new: str) -> Path:
    text = client.read_text()
    assert old in text
    path = folder / "altered.properties"
    path.write_text(text.replace(old, new))
    return path


def test_the_administrator_and_the_application_reach_it(cluster: LocalProcess) -> None:
    assert cluster.cluster["secure"] is True
    admin = Path(cluster.cluster["command_config"])
    assert admin == cluster.folder / "client.properties"
    assert stat.S_IMODE(admin.stat().st_mode) == 0o600
    made = ask(cluster, "topics", "create", "orders", "--partitions", "2", client=admin)
    assert (made.code, made.err) == (0, "Created topic orders.\n")
    app = cluster.folder / "app.properties"
    sent = ask(cluster, "produce", "orders", client=app, stdin=b"a\nb\n")
    assert sent.code == 0, sent.err
    read = ask(cluster, "consume", "orders", "--from-beginning", client=app)
    assert (read.code, sorted(read.out.split())) == (0, ["a", "b"])
    for name, where in (
        ("--bootstrap-server", cluster.servers),
        ("--bootstrap-controller", cluster.controllers),
    ):
        said = metaquorum(
            *("metadata-quorum", name, where, "--command-config", admin, "describe", "--status")
        )
        assert said.code == 0, said.err


def test_strangers_are_refused_in_one_sentence(cluster: LocalProcess, tmp_path: Path) -> None:
    admin = cluster.folder / "client.properties"
    first = cluster.servers.split(",")[0]
    users = (cluster.folder / "security" / "users.json").read_text()
    password = users.split('"admin": "')[1].split('"')[0]
    wrong = altered(tmp_path, admin, password, "guess")
    for command in (("topics", "list"), ("produce", "orders"), ("consume", "orders")):
        refused = ask(cluster, *command, client=wrong)
        assert refused.code == 1
        assert refused.err == (
            f"Error: {first}: Authentication failed during authentication due to invalid "
            "credentials with SASL mechanism SCRAM-SHA-512\n"
        )
    assert metaquorum("certs", "create-authority", "--dir", tmp_path / "other").code == 0
    trusted = str(cluster.folder / "security" / "ca.pem")
    foreign = altered(tmp_path, admin, trusted, str(tmp_path / "other" / "ca.pem"))
    refused = ask(cluster, "topics", "list", client=foreign)
    assert (refused.code, refused.err.count("\n")) == (1, 1)
    assert refused.err.startswith(f"Error: {first}: its certificate is refused: ")


def test_http_wants_the_token(cluster: LocalProcess) -> None:
    security = cluster.folder / "security"
    trusting = create_default_context(cafile=security / "ca.pem")
    address = f"https://{cluster.cluster['controllers'][0]['http']}/v1/quorum"
    bearer = f"Bearer {(security / 'http.token').read_text().strip()}"
    request = urllib.request.Request(address, headers={"Authorization": bearer})
    with urllib.request.urlopen(request, timeout=20, context=trusting) as answer:
        assert answer.status == 200
    with pytest.raises(urllib.error.HTTPError, match="401"):
        urllib.request.urlopen(address, timeout=20, context=trusting)
