"""Commits per second over mutual TLS beside those in PLAINTEXT, on one machine in one run.

Two clusters as those of `bench.commits` take turns. In one of them every connection, between the
controllers and of the clients, is TLS with certificates on both sides, and every request is
authorized by the ACLs' authorizer.
"""

import random
from collections.abc import Mapping
from pathlib import Path
from statistics import median
from typing import Final

import click

from admin.client.admin_client import AdminError
from admin.client.channels import NoResponse
from admin.client.command_config import load_client_config
from admin.tools.certificates import Authority, write_authority, write_issued, write_new
from admin.tools.local_cluster import LocalCluster
from admin.tools.local_plan import HOST, LocalError, Wanted, as_properties, settle
from admin.tools.local_security import now
from bench import machine
from bench.commits import RunOptions, measure
from bench.faults import RunFailed
from bench.isr_connection import check_patching
from bench.options import folder_option, workplace
from bench.report import Row, table
from statemachine.security.authorization import STANDARD_AUTHORIZER

NAME: Final = "bench"
OUTSTANDING: Final = 128
ROUNDS_MAX: Final = 50
DAYS: Final = 2
CLIENT_FILE: Final = "client.properties"


async def measure_pair(folder: Path, seconds: float, rounds: int) -> tuple[list[Row], list[Row]]:
    """Return the rows of PLAINTEXT and those over TLS, one of each round."""
    options = RunOptions((OUTSTANDING,), seconds, best_of=1)
    plain: list[Row] = []
    over_tls: list[Row] = []
    for number in range(rounds):
        for rows, is_secure in ((plain, False), (over_tls, True)):
            home = folder / f"{number}-{'tls' if is_secure else 'plaintext'}"
            plan = settle(home, Wanted(controllers=3, brokers=0, base_port=0), random.Random())
            settings = secured(home) if is_secure else {}
            cluster = LocalCluster(home, plan, settings=settings)
            if is_secure:
                cluster.config = load_client_config(home / CLIENT_FILE)
            async with cluster:
                rows += (await measure(cluster, options))[1]
    return plain, over_tls


def secured(home: Path) -> Mapping[str, str]:
    """Write one certificate for all, the file of the clients, and return the nodes' settings."""
    authority = Authority.new(f"{NAME}-authority", days=DAYS, now=now())
    write_authority(home, authority)
    chain = home / "node.pem"
    write_issued(chain, authority.issue_node(NAME, (HOST,), days=DAYS, now=now()))
    tls = {
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(chain),
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(home / "ca.pem"),
    }
    client = as_properties({"security.protocol": "SSL", **tls})
    write_new(home / CLIENT_FILE, client.encode())
    return {
        **tls,
        "listener.security.protocol.map": "CONTROLLER:SSL",
        "ssl.client.auth": "required",
        "authorizer.class.name": STANDARD_AUTHORIZER,
        "super.users": f"User:CN={NAME}",
    }


@click.command()
@click.option("--seconds", type=click.FloatRange(0.1, 600), default=5.0, show_default=True)
@click.option("--rounds", type=click.IntRange(1, ROUNDS_MAX), default=3, show_default=True)
@folder_option
def command(seconds: float, rounds: int, folder: Path | None) -> None:
    """Measure commits at 128 connections over mutual TLS, beside those in PLAINTEXT."""
    try:
        machine.check()
        check_patching()
        with workplace(folder) as (place, runner):
            plain, over_tls = runner.run(measure_pair(place, seconds, rounds))
    except* (RunFailed, LocalError, AdminError, NoResponse) as failures:
        raise click.ClickException("; ".join(map(str, failures.exceptions))) from None
    click.echo(f"PLAINTEXT\n\n{table(plain)}\nmutual TLS and an authorizer\n\n{table(over_tls)}")
    without, with_tls = (
        median(row.commits_per_second for row in rows) for rows in (plain, over_tls)
    )
    click.echo(f"commits/s, medians: {without:.0f} and {with_tls:.0f}: {with_tls / without:.2f}")


if __name__ == "__main__":
    command()
