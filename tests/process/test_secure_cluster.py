"""`metaquorum local --secure`, and the commands against it, all as real processes."""

import json
import stat
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from ssl import create_default_context

import pytest

from tests.process.local_process import Done, LocalProcess, local, metaquorum, started

pytestmark = pytest.mark.process

TRIES_MAX = 20


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


def until(said: Callable[[Done], bool], run: Callable[[], Done]) -> Done:
    """Run a command until it says this: a broker is a moment behind the controllers."""
    for _ in range(TRIES_MAX):
        done = run()
        if said(done):
            return done
    raise AssertionError(done)


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
    users = json.loads((cluster.folder / "security" / "users.json").read_text())
    for door, where in (
        ("--bootstrap-server", cluster.servers),
        ("--bootstrap-controller", cluster.controllers),
    ):
        refused = metaquorum("topics", "list", door, where)
        assert refused.code == 1
        assert refused.err.startswith(f"Error: {where.split(',')[0]} speaks TLS, and this client")
        assert refused.err.count("\n") == 1
    wrong = altered(tmp_path, admin, users["admin"], "guess")
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


def added(cluster: LocalProcess, name: str, folder: Path) -> Path:
    """Add a user without rights; return its client.properties."""
    password = folder / "password"
    password.write_text("swordfish\nthe second line is no part of it")
    admin = cluster.folder / "client.properties"
    done = ask(cluster, "users", "add", name, "--password-file", str(password), client=admin)
    assert (done.code, done.err) == (0, f"User {name} has a password for SCRAM-SHA-512.\n")
    users = json.loads((cluster.folder / "security" / "users.json").read_text())
    path = folder / f"{name}.properties"
    text = admin.read_text().replace('"admin"', f'"{name}"')
    path.write_text(text.replace(users["admin"], "swordfish"))
    return path


def test_users_come_and_go(cluster: LocalProcess, tmp_path: Path) -> None:
    admin, bob = cluster.folder / "client.properties", added(cluster, "bob", tmp_path)
    listed = ask(cluster, "users", "list", "-o", "json", client=admin)
    entry = {"name": "bob", "mechanism": "SCRAM-SHA-512", "iterations": 4_096}
    assert entry in json.loads(listed.out)["users"]
    until(lambda done: done.code == 0, lambda: ask(cluster, "topics", "list", client=bob))
    assert ask(cluster, "users", "remove", "bob", "--yes", client=admin).code == 0
    until(
        lambda done: "invalid credentials" in done.err,
        lambda: ask(cluster, "topics", "list", client=bob),
    )
    again = ask(cluster, "users", "remove", "bob", "--yes", client=admin)
    assert (again.code, again.err) == (
        1,
        "Error: user bob cannot be removed: Attempt to delete a user credential that does not "
        "exist (RESOURCE_NOT_FOUND)\n",
    )


def test_a_missing_right_is_named_in_one_sentence_until_an_acl_grants_it(
    cluster: LocalProcess, tmp_path: Path
) -> None:
    admin, carol = cluster.folder / "client.properties", added(cluster, "carol", tmp_path)
    assert ask(cluster, "topics", "create", "granted", client=admin).code == 0
    assert ask(cluster, "produce", "granted", client=admin, stdin=b"first\n").code == 0

    def attempt(*command: str) -> Done:
        return ask(cluster, *command, client=carol, stdin=b"a\n")

    def refused(message: str, *command: str) -> None:
        done = until(lambda done: message in done.err, lambda: attempt(*command))
        assert (done.code, done.err.count("\n")) == (1, 1), done.err

    def done(*command: str) -> str:
        return until(lambda done: done.code == 0, lambda: attempt(*command)).out

    def allow(operation: str) -> None:
        words = ("--allow-principal", "carol", "--operation", operation, "--topic", "granted")
        assert ask(cluster, "acls", "add", *words, client=admin).code == 0

    for command in (
        ("metadata-quorum", "describe", "--status"),
        ("reassign-partitions", "--list"),
        ("moves", "list"),
        ("brokers", "list"),
        ("users", "list"),
        ("acls", "list"),
    ):
        refused("User:carol needs DESCRIBE on CLUSTER kafka-cluster", *command)
    refused("User:carol needs CREATE on TOPIC new", "topics", "create", "new")
    read = ("consume", "granted", "--from-beginning")
    for data in (("produce", "granted"), read):
        refused("User:carol needs DESCRIBE on TOPIC granted", *data)
    allow("describe")
    refused("User:carol needs WRITE on TOPIC granted", "produce", "granted")
    refused("User:carol needs READ on TOPIC granted", *read)
    allow("write")
    allow("read")
    done("produce", "granted")
    assert done(*read) == "first\na\n"
    asked = ("--principal", "carol", "--topic", "granted")
    listed = ask(cluster, "acls", "list", *asked, "-o", "json", client=admin)
    granted = json.loads(listed.out)["acls"]
    assert {each["operation"] for each in granted} == {"DESCRIBE", "WRITE", "READ"}
    assert ask(cluster, "acls", "remove", *asked, "--yes", client=admin).code == 0
    assert ask(cluster, "acls", "remove", *asked, "--yes", client=admin).code == 1
    refused("User:carol needs DESCRIBE on TOPIC granted", "produce", "granted")


def test_a_cluster_that_refuses_its_administrator_says_so_at_once(tmp_path: Path) -> None:
    """Somebody has set another password for the user of client.properties."""
    folder = tmp_path / "cluster"
    sizes = ("--secure", "--controllers", "1", "--brokers", "1", "--base-port", "0")
    with local(folder, *sizes) as running:
        client = folder / "client.properties"
        (tmp_path / "password").write_text("another\n")
        options = ("--password-file", str(tmp_path / "password"))
        assert ask(running, "users", "add", "admin", *options, client=client).code == 0
        said = [path.read_text() for path in folder.glob("*/*.log")]
    for text in said:
        assert "there is no credential of" not in text
    refused = started("local", "--secure", "--dir", folder)
    assert refused.code == 1
    expected = f"Error: the cluster does not accept the user of {client}: "
    last = next(each for each in refused.err.splitlines() if each.startswith("Error: "))
    assert last.startswith(expected)
    assert "invalid credentials with SASL mechanism SCRAM-SHA-512. Write the user's present" in last


def test_a_node_with_a_wrong_certificate_is_named_by_everybody(tmp_path: Path) -> None:
    folder, other = tmp_path / "cluster", tmp_path / "other"
    sizes = ("--secure", "--controllers", "3", "--brokers", "1", "--base-port", "0")
    name = "controller-1"
    keystore = folder / name / "node.pem"

    def install(authority: Path, *hosts: str) -> None:
        options = [word for each in hosts for word in ("--host", each)]
        words = ("--dir", str(authority), "--name", name, *options, "--file", f"{keystore}.new")
        assert metaquorum("certs", "create-node", *words).code == 0
        Path(f"{keystore}.new").rename(keystore)

    with local(folder, *sizes) as running:
        assert metaquorum("certs", "create-authority", "--dir", str(other)).code == 0
        for authority, host, reason in (
            (other, "127.0.0.1", "unable to get local issuer certificate"),
            (folder / "security", "elsewhere.example", "not valid for '127.0.0.1'"),
        ):
            install(authority, host)
            restarted = metaquorum("local", "restart", name, "--dir", str(folder))
            assert restarted.code == 1
            assert f"{name} runs, but nobody accepts its certificate: " in restarted.err
            assert f"{reason}. Make another one: metaquorum certs create-node" in restarted.err
            doctor = ask(running, "doctor", client=folder / "client.properties")
            assert doctor.code == 3, doctor.err
            assert "ERROR certificate-refused: controller 1 at 127.0.0.1:" in doctor.out
            assert reason in doctor.out
            process = running.cluster["controllers"][0]
            assert isinstance(process["pid"], int)
        log = (folder / name / "node.log").read_text()
        assert "it refused our certificate: it does not know the authority" in log
        assert "it is not valid yet, or not for the host" in log
        install(folder / "security", "127.0.0.1")
        assert metaquorum("local", "restart", name, "--dir", str(folder)).code == 0
        doctor = ask(running, "doctor", client=folder / "client.properties")
        assert (doctor.code, doctor.out) == (0, ""), doctor


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


def test_a_backup_needs_credentials_with_the_right_of_a_node(
    cluster: LocalProcess, tmp_path: Path
) -> None:
    place = ("backup", "--to", tmp_path, "--bootstrap-controller", cluster.controllers)
    for name, code in (("client.properties", 0), ("app.properties", 1)):
        done = metaquorum(*place, "--command-config", cluster.folder / name)
        assert done.code == code, done.err
        assert done.code == 0 or "User:app needs CLUSTER_ACTION on CLUSTER" in done.err
    assert metaquorum("backup", "verify", tmp_path).code == 0
