"""`--command-config`: what a file that cannot be used is answered, before any request."""

from pathlib import Path

import pytest
from click.testing import CliRunner
from confluent_kafka import KafkaError

from admin.cli.main import group
from admin.cli.options import Target
from admin.cli.topic_filters import PartitionFilter
from admin.cli.topics import none_found
from admin.client.command_config import load_client_config
from admin.client.librdkafka import reason_of

COMMANDS = (
    ("metadata-quorum", "describe", "--status"),
    ("reassign-partitions", "--list"),
    ("topics", "list"),
    ("produce", "orders"),
    ("consume", "orders"),
)
SERVER = ("--bootstrap-server", "127.0.0.1:1", "--timeout", "50ms")


def refusal(command: tuple[str, ...], file: Path) -> str:
    done = CliRunner().invoke(group, [*command, *SERVER, "--command-config", str(file)])
    assert done.exit_code == 2, done.output
    return done.stderr.splitlines()[-1].removeprefix("Error: --command-config: ")


@pytest.mark.parametrize("command", COMMANDS, ids=lambda each: each[0])
def test_every_command_line_that_connects_reads_the_file(
    tmp_path: Path, command: tuple[str, ...]
) -> None:
    path = tmp_path / "absent"
    assert refusal(command, path) == f"{path} cannot be read: No such file or directory"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("security.protocol=TELNET", ":1: security.protocol: 'TELNET' is not a security protocol"),
        (
            "client.id=a\nssl.trustore.location=ca.pem",
            ":2: ssl.trustore.location is not a setting; did you mean ssl.truststore.location?",
        ),
        ("security.protocl=SSL", ":1: security.protocl is not a setting; did you mean"),
        ("# of alice\npassword", ":2: it is not name=value"),
        ("security.protocol=SASL_SSL", ": sasl.mechanism is not set"),
        (
            "security.protocol=SASL_SSL\nsasl.mechanism=PLAIN",
            ": sasl.jaas.config is not set: it has the credentials for PLAIN",
        ),
        (
            "security.protocol=SSL\nssl.truststore.location=/absent.pem",
            ": ssl.truststore.location /absent.pem cannot be read: No such file or directory",
        ),
    ],
)
def test_a_wrong_file_is_refused_with_its_line(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "client.properties"
    path.write_text(text)
    assert refusal(COMMANDS[0], path).startswith(f"{path}{message}")


def test_settings_of_kafka_that_do_not_count_here_are_passed_over(tmp_path: Path) -> None:
    path = tmp_path / "client.properties"
    names = ("acks", "sasl.oauthbearer.scope.claim.name", "ssl.provider", "ssl.truststore.password")
    path.write_text("".join(f"{name}=x\n" for name in names))
    assert load_client_config(path).librdkafka == {}


def test_an_empty_list_of_topics_is_that_of_whoever_has_authenticated(tmp_path: Path) -> None:
    path = tmp_path / "client.properties"

    def none(text: str) -> str:
        path.write_text(text)
        target = Target(None, None, 1_000, load_client_config(path))
        return none_found(target, PartitionFilter(), named=False)

    assert none("") == "There are no topics."
    login = "org.apache.kafka.common.security.plain.PlainLoginModule required "
    plain = f'sasl.jaas.config={login} username="ann" password="p";'
    sasl = f"security.protocol=SASL_PLAINTEXT\nsasl.mechanism=PLAIN\n{plain}"
    assert none(sasl) == "There are no topics that User:ann may describe."
    assert none_found(Target(None, None, 1_000), PartitionFilter(), named=False) == none("")


@pytest.mark.parametrize(
    ("text", "principal"),
    [
        ("", "User:ANONYMOUS"),
        (
            "security.protocol=SASL_PLAINTEXT\nsasl.mechanism=SCRAM-SHA-256\nsasl.jaas.config="
            'org.apache.kafka.common.security.scram.ScramLoginModule required username="ann" '
            'password="p";',
            "User:ann",
        ),
        (
            "security.protocol=SASL_PLAINTEXT\nsasl.mechanism=SCRAM-SHA-256\nsasl.jaas.config="
            'org.apache.kafka.common.security.scram.ScramLoginModule required username="id" '
            'password="hmac" tokenauth="true";',
            "this client",
        ),
    ],
)
def test_a_missing_right_is_that_of_the_user_of_the_file(
    tmp_path: Path, text: str, principal: str
) -> None:
    file = tmp_path / "client.properties"
    file.write_text(text)
    assert load_client_config(file).security.principal == principal
    denied = KafkaError(KafkaError.TOPIC_AUTHORIZATION_FAILED)
    said = reason_of(denied, principal, "READ on TOPIC a")
    assert said.endswith(f" ({principal} needs READ on TOPIC a)")


def test_no_password_is_shown(tmp_path: Path) -> None:
    path = tmp_path / "client.properties"
    path.write_text(
        "security.protocol=SASL_PLAINTEXT\nsasl.mechanism=PLAIN\nsasl.jaas.config="
        'org.apache.kafka.common.security.plain.PlainLoginModule required password="swordfish"\n'
    )
    assert "swordfish" not in refusal(COMMANDS[0], path)
