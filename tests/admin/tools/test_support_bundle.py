"""A support bundle has what a bug report needs, and no secret, wherever one was planted."""

import json
import secrets
import tarfile
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from admin.config import gather, scrubber_of, shown_settings
from admin.scrubber import Scrubber
from admin.settings import SETTINGS, setting_named
from admin.tools.certificates import write_new
from admin.tools.local_plan import as_properties
from admin.tools.support_bundle import Bundle, BundleError, add_folder
from quorum.transport.security.secret import HIDDEN

PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"
SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule"
PLAINLY_WRONG = "planted-"
"""The beginning of each secret that is planted; nothing else has it."""


def planted() -> str:
    return PLAINLY_WRONG + secrets.token_urlsafe(16)


def key_in_pem() -> str:
    lines = "\n".join(planted() for _ in range(3))
    return f"-----BEGIN ENCRYPTED PRIVATE KEY-----\n{lines}\n-----END ENCRYPTED PRIVATE KEY-----"


def login(module: str) -> str:
    """The text of a login module, with awkward passwords."""
    options = f'username="node" password="{planted()}" user_ann="{planted()} \\"x"'
    return f"{module} required {options};"


def secret_settings() -> Mapping[str, str]:
    """A value for every setting that has secrets, in each of the places that it may have."""
    found: dict[str, str] = {}
    for setting in SETTINGS.values():
        if not setting.kind.is_secret:
            continue
        names = [setting.name]
        if setting.per_listener:
            names.append(f"listener.name.controller.{setting.name}")
        if setting.per_mechanism:
            names += [
                f"listener.name.controller.{each}.{setting.name}"
                for each in ("plain", "scram-sha-512")
            ]
        for name in names:
            assert setting_named(name) is not None, name
            value = planted()
            if setting.name == "sasl.jaas.config":
                value = login(SCRAM if "scram" in name else PLAIN)
            if setting.name == "ssl.keystore.key":
                value = key_in_pem()
            found[name] = value
    return found


def test_the_settings_with_secrets_are_all_planted() -> None:
    """A new one is planted by itself; this names those of now, so that none gets lost."""
    assert {name for name in secret_settings() if name in SETTINGS} == {
        "delegation.token.master.key",
        "delegation.token.secret.key",
        "sasl.jaas.config",
        "ssl.key.password",
        "ssl.keystore.key",
    }


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """The folder of a local cluster with one node, whose log repeats every secret."""
    folder = tmp_path / "cluster"
    node = folder / "controller-1"
    data = node / "data"
    (data / "__cluster_metadata-0").mkdir(parents=True)
    (data / "meta.properties").write_text("version=1\nnode.id=1\n")
    (data / "__cluster_metadata-0" / f"{0:020}.log").write_text(planted())
    (data / "__cluster_metadata-0" / f"{9:020}-{1:010}.checkpoint").write_text(planted())
    (folder / "local.json").write_text('{"format": 1}')
    settings = {
        "process.roles": "controller",
        "node.id": 1,
        "listeners": "CONTROLLER://127.0.0.1:9093",
        "log.dir": data,
        "sasl.oauthbearer.jwks.endpoint.url": f"https://user:{planted()}@keys.example.org/jwks",
        **{name: value.replace("\n", "\\n") for name, value in secret_settings().items()},
    }
    text = as_properties(settings).replace("\\\\n", "\\n")
    write_new(node / "node.properties", text.encode())
    values = [line for value in settings.values() for line in str(value).split("\\n")]
    lines = [f"a message with {each} in it" for each in values]
    bare = [each for each in text.replace('"', " ").split() if PLAINLY_WRONG in each]
    token = f"mq_{planted()}"
    lines += [*bare, f"Authorization: Bearer {planted()}", f'{{"password":"{planted()}"}}', token]
    (node / "node.log").write_text("\n".join(lines))
    (node / "node.pem").write_text(key_in_pem())
    (folder / "security").mkdir()
    (folder / "security" / "users.json").write_text(json.dumps({"admin": planted()}))
    (folder / "client.properties").write_text(f"sasl.jaas.config={login(SCRAM)}\n")
    return folder


def members(archive: Path) -> Iterator[tuple[str, bytes]]:
    with tarfile.open(archive) as opened:
        for each in opened.getmembers():
            file = opened.extractfile(each)
            assert file is not None
            yield each.name, file.read()


def written(bundle: Bundle, path: Path) -> dict[str, bytes]:
    bundle.write(path, "a test")
    return dict(members(path))


def test_no_planted_secret_is_in_the_archive(home: Path, tmp_path: Path) -> None:
    bundle = Bundle()
    add_folder(bundle, home)
    found = written(bundle, tmp_path / "b.tar.gz")
    for name, data in found.items():
        assert PLAINLY_WRONG.encode() not in data, f"{name}: {data.decode()}"
    assert {name.removeprefix("b/nodes/controller-1/") for name in found} >= {
        "node.properties",
        "node.log",
        "meta.properties",
        "files.txt",
        "doctor.json",
    }
    settings = found["b/nodes/controller-1/node.properties"].decode()
    assert "node.id=1\n" in settings
    assert f"sasl.jaas.config={HIDDEN}\n" in settings
    assert b"a message with" in found["b/nodes/controller-1/node.log"]
    assert (tmp_path / "b.tar.gz").stat().st_mode & 0o777 == 0o600


def test_the_planted_secrets_would_be_found(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without the scrubber the test above is red: the log has them all."""
    monkeypatch.setattr(Scrubber, "scrub", lambda _, text: text)
    bundle = Bundle()
    add_folder(bundle, home)
    found = written(bundle, tmp_path / "b.tar.gz")
    assert found["b/nodes/controller-1/node.log"].count(PLAINLY_WRONG.encode()) >= 10


def test_a_file_of_settings_that_cannot_be_read_is_left_out_without_a_quote(
    home: Path, tmp_path: Path
) -> None:
    path = home / "controller-1" / "node.properties"
    path.write_text(f"node.id=1\nsasl.jaas.confog={planted()}\n'{planted()}'\n")
    bundle = Bundle()
    add_folder(bundle, home)
    found = written(bundle, tmp_path / "b.tar.gz")
    assert "b/nodes/controller-1/node.properties" not in found
    about = json.loads(found["b/bundle.json"])
    assert any("node.properties was left out" in each for each in about["missing"])
    assert PLAINLY_WRONG.encode() not in found["b/bundle.json"]


def test_a_node_hides_its_secrets_and_scrubs_its_log() -> None:
    """As the capability `node.support` answers: the settings of a running node."""
    overrides = [f"{name}={value}" for name, value in secret_settings().items()]
    overrides += ["node.id=1", "process.roles=controller", "listeners=127.0.0.1:9093", "log.dir=/x"]
    given = gather(None, {}, overrides)
    shown = shown_settings(given)
    assert not [name for name, value in shown.items() if PLAINLY_WRONG in value]
    scrubber = scrubber_of(given)
    for one in given.values():
        if one.setting.kind.is_secret:
            assert PLAINLY_WRONG not in scrubber.scrub(f"it says {one.text}")
    assert PLAINLY_WRONG not in repr(scrubber)


@pytest.mark.parametrize(
    "text",
    [
        'password="x y \\" z" more',
        "the PASSWORD: secret-word, and more",
        "user_ann='s3cret'",
        '{"client_secret": "abcdef"}',
        "Authorization: Basic dXNlcjpwYXNz",
        "https://ann:pw@host/path",
        "eyJhbGciOiJSUzI1NiJ9.eyJzdWIiOiJhIn0.c2ln",
        "-----BEGIN PRIVATE KEY-----\nabc",
    ],
)
def test_forms_of_secrets_are_known(text: str) -> None:
    assert HIDDEN in Scrubber().scrub(text)


@pytest.mark.parametrize(
    "text",
    [
        "sasl.oauthbearer.assertion.private.key.passphrase=PLANTED",
        "delegation.token.master.key=PLANTED",
        "ssl.key.password=a PLANTED with spaces PLANTED",
        "  ssl.keystore.password = a PLANTED",
        '{"access_token": "PLANTED", "expires_in": 3600}',
        "AWS_SESSION_TOKEN=PLANTED",
        "https://host/x?api_key=PLANTED&page=2",
        "X-Auth-Token: PLANTED",
        "Authorization: PLANTED",
        'Authorization: Digest username="ann", response=PLANTED',
        '"Cookie": "session=PLANTED"',
        'passwords: ["PLANTED", "PLANTED"]',
        "password='it\\'s PLANTED'",
        'sasl.jaas.config=x.PlainLoginModule required username="a" password=PLANTED;',
        "SCRAM-SHA-256=[password=PLANTED,iterations=8192]",
    ],
)
def test_nothing_is_left_of_a_secret(text: str) -> None:
    assert "PLANTED" not in Scrubber().scrub(text)
    assert HIDDEN in Scrubber().scrub(text)


@pytest.mark.parametrize("word", ["a", "a-", "password", "a.b:", "user_", '\\"'])
def test_long_words_take_no_square_of_their_length(word: str) -> None:
    """A line of the log has 4,000 characters at most, and others may have chosen them."""

    def seconds(characters: int) -> float:
        text = word * (characters // len(word))
        begun = time.process_time()
        Scrubber().scrub(text)
        return time.process_time() - begun

    seconds(1_000)
    assert seconds(64_000) < 40 * max(seconds(8_000), 0.005)


def test_the_name_of_a_user_stays() -> None:
    scrubber = Scrubber([login(SCRAM).replace('"node"', '"controller-1"')])
    text = "User:controller-1 logged in by required LoginModule"
    assert scrubber.scrub(text) == text


def test_what_is_no_secret_stays() -> None:
    for text in (
        "broker 1 leads orders-0 at https://host:9093/v1; User:ann was refused; epoch 5@2",
        "delegation.token.max.lifetime.ms=604800000\nlog.dir=/data with spaces",
        "CLUSTER_AUTHORIZATION_FAILED: no ACL allows it",
    ):
        assert Scrubber(["ab", ""]).scrub(text) == text


def test_a_folder_of_neither_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BundleError, match="neither the folder of a local cluster"):
        add_folder(Bundle(), tmp_path)


def test_a_file_is_never_overwritten(tmp_path: Path) -> None:
    (tmp_path / "b.tar.gz").write_text("mine")
    with pytest.raises(FileExistsError):
        Bundle().write(tmp_path / "b.tar.gz", "")
    assert (tmp_path / "b.tar.gz").read_text() == "mine"


def test_a_bundle_is_bounded(tmp_path: Path) -> None:
    bundle = Bundle(_left=10)
    bundle.add("a", "12345")
    bundle.add("b", "123456")
    assert [*bundle.files] == ["a"]
    assert bundle.missing == ["b was left out: the archive would be too large"]
