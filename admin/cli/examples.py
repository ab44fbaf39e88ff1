"""An example for the help of each command; the tables of docs/cli.md have the same ones.

The addresses are those of `metaquorum local`.
"""

from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Final

import click

EXAMPLES: Final[Mapping[str, str]] = MappingProxyType(
    {
        "start": "metaquorum start --config node.toml",
        "local": "metaquorum local --controllers 3 --brokers 4 --dir /tmp/mq --detach",
        "local restart": "metaquorum local restart 102 --dir /tmp/mq",
        "local kill": "metaquorum local kill controller-1 --dir /tmp/mq",
        "local stop": "metaquorum local stop --dir /tmp/mq",
        "demo": "metaquorum demo --once",
        "upgrade check": "metaquorum upgrade check",
        "support-bundle": "metaquorum support-bundle --file bundle.tar.gz",
        "metadata-quorum describe": "metadata-quorum describe --status",
        "metadata-quorum alter": "metadata-quorum alter --voters 4,5,6",
        "metadata-quorum add-controller": ("metadata-quorum add-controller --controller-id 4"),
        "metadata-quorum remove-controller": "metadata-quorum remove-controller --controller-id 4",
        "leader transfer": "metaquorum leader transfer --to 2",
        "reassign-partitions": (
            "reassign-partitions --reassignment-json-file plan.json --execute --wait"
        ),
        "moves list": "metaquorum moves list --running",
        "moves show": "metaquorum moves show 1",
        "moves pause": "metaquorum moves pause 1",
        "moves resume": "metaquorum moves resume 1",
        "moves cancel": "metaquorum moves cancel 1",
        "moves wait": "metaquorum moves wait 1",
        "moves rollback": "metaquorum moves rollback 1 --dry-run",
        "moves rollback-plan": "metaquorum moves rollback-plan 1",
        "moves priority": "metaquorum moves priority 1 10",
        "moves throttle": "metaquorum moves throttle 1 10000000",
        "brokers list": "metaquorum brokers list",
        "brokers cordon": "metaquorum brokers cordon --brokers 104",
        "brokers uncordon": "metaquorum brokers uncordon --brokers 104",
        "brokers unregister": "metaquorum brokers unregister --brokers 104",
        "brokers safe-to-stop": "metaquorum brokers safe-to-stop --brokers 102,103",
        "brokers decommission": "metaquorum brokers decommission --brokers 104 --wait",
        "brokers log-dirs": "metaquorum brokers log-dirs --topic orders",
        "brokers recommission": "metaquorum brokers recommission --brokers 104",
        "topics create": (
            "metaquorum topics create orders --partitions 6 --replication-factor 3"
            " --config retention.ms=86400000"
        ),
        "topics list": "metaquorum topics list",
        "topics describe": "metaquorum topics describe orders",
        "topics alter": "metaquorum topics alter orders --partitions 12",
        "topics delete": "metaquorum topics delete orders --yes",
        "topics get-offsets": "metaquorum topics get-offsets orders --time earliest",
        "topics delete-records": (
            "metaquorum topics delete-records --offset-json-file offsets.json --yes"
        ),
        "topics elect-leaders": (
            "metaquorum topics elect-leaders --election-type preferred --all-topic-partitions"
        ),
        "configs describe": "metaquorum configs describe --topic orders",
        "configs alter": "metaquorum configs alter --topic orders --set retention.ms=86400000",
        "quotas describe": "metaquorum quotas describe --user alice",
        "quotas alter": "metaquorum quotas alter --user alice --set producer_byte_rate=1048576",
        "groups list": "metaquorum groups list",
        "groups describe": "metaquorum groups describe billing",
        "groups offsets": "metaquorum groups offsets billing",
        "groups reset-offsets": (
            "metaquorum groups reset-offsets billing --topic orders --to-earliest"
        ),
        "groups delete": "metaquorum groups delete billing --yes",
        "features describe": "metaquorum features describe",
        "features upgrade": "metaquorum features upgrade --feature metadata.version=4.2 --dry-run",
        "produce": "seq 1 1000 | metaquorum produce orders",
        "consume": "metaquorum consume orders --from-beginning",
        "doctor": "metaquorum doctor",
        "snapshots list": "metaquorum snapshots list",
        "snapshots take": "metaquorum snapshots take",
        "backup": "metaquorum backup --to /backups/mq --keep-for 30d",
        "backup list": "metaquorum backup list /backups/mq",
        "backup show": "metaquorum backup show /backups/mq",
        "backup verify": "metaquorum backup verify s3://backups/mq",
        "restore": "metaquorum restore /backups/mq --dir /data/mq",
        "recover": "metaquorum recover /data/c1 /data/c2",
        "dump-log": "metaquorum dump-log /tmp/mq/controller-1/data/__cluster_metadata-0/*.log",
        "chaos sim": "metaquorum chaos sim --minutes 5 --save case.json",
        "chaos crashes": "metaquorum chaos crashes --images 10000",
        "chaos run": "metaquorum chaos run --rounds 20 --page run.html",
        "chaos report": "metaquorum chaos report ours.json kafkas.json --page both.html",
        "lag report": "metaquorum lag report /data/c1 /data/c2 /data/c3",
        "lag watch": "metaquorum lag watch /data",
        "lag archive": "metaquorum lag archive /data --archive /archive/mq --keep 90d",
        "adopt": "metaquorum adopt /old/c1 /old/c2 /old/c3 --dir /data/mq",
        "migrate plan": (
            "metaquorum migrate plan"
            " --from k1:9093,k2:9093,k3:9093 --controllers 11@c1:9093,12@c2:9093,13@c3:9093"
        ),
        "migrate start": (
            "metaquorum migrate start"
            " --from k1:9093,k2:9093,k3:9093 --controllers 11@c1:9093,12@c2:9093,13@c3:9093"
        ),
        "migrate status": (
            "metaquorum migrate status"
            " --from k1:9093,k2:9093,k3:9093 --controllers 11@c1:9093,12@c2:9093,13@c3:9093"
        ),
        "migrate finish": (
            "metaquorum migrate finish"
            " --from k1:9093,k2:9093,k3:9093 --controllers 11@c1:9093,12@c2:9093,13@c3:9093"
        ),
        "migrate back": (
            "metaquorum migrate back"
            " --from k1:9093,k2:9093,k3:9093 --controllers 11@c1:9093,12@c2:9093,13@c3:9093"
        ),
        "users add": "metaquorum users add alice",
        "users remove": "metaquorum users remove alice",
        "users list": "metaquorum users list",
        "acls add": (
            "metaquorum acls add --topic orders --allow-principal User:alice --operation READ"
        ),
        "acls list": "metaquorum acls list --principal User:alice",
        "acls remove": "metaquorum acls remove --topic orders",
        "certs create-authority": "metaquorum certs create-authority --dir certs",
        "certs create-node": (
            "metaquorum certs create-node --dir certs --name 1 --host controller-1.example.org"
        ),
        "certs create-client": "metaquorum certs create-client --dir certs --name alice",
        "http-tokens create": (
            "metaquorum http-tokens create --name grafana --role viewer --file tokens"
        ),
        "settings": "metaquorum settings",
        "completion": "source <(metaquorum completion bash)",
        "profile set": (
            "metaquorum profile set prod --bootstrap-server b1:9092,b2:9092"
            " --command-config prod.properties"
        ),
        "profile use": "metaquorum profile use prod",
        "profile list": "metaquorum profile list",
        "profile remove": "metaquorum profile remove prod",
    }
)

_SERVER: Final = "--bootstrap-server 127.0.0.1:19101"


def attach(command: click.Command, path: str) -> None:
    """Put an example below the help of `command`, and of the commands inside it."""
    if isinstance(command, click.Group):
        for name, inner in command.commands.items():
            attach(inner, f"{path} {name}")
    found = next(_of(command, path), None)
    if found is not None:
        command.epilog = f"\b\nExample:\n  {found}"


def _of(command: click.Command, path: str) -> Iterator[str]:
    """The example of a command; those of a group are those of the commands inside it."""
    if path in EXAMPLES:
        connects = "--bootstrap-server" not in EXAMPLES[path] and any(
            each.name == "bootstrap_server" for each in command.params
        )
        yield f"{EXAMPLES[path]} \\\n    {_SERVER}" if connects else EXAMPLES[path]
    elif isinstance(command, click.Group):
        for name, inner in command.commands.items():
            yield from _of(inner, f"{path} {name}")
