"""Decisions by many ACLs: their time, the memory of the ACLs, and the time of a change.

    python -m bench.authorizer [--acls N] [--requests N]

The ACLs are those of many applications, each with topics and groups by name and by prefix, with
nested prefixes and a few rules for everybody; the requests are half of the owner, half of others.
Each decision is timed five times, and the fastest counts: other load on the machine is no part of
it. The memory is that of the records in the image and of the index.
"""

import gc
import random
import statistics
import time
import tracemalloc
from collections.abc import Sequence
from typing import Final, NamedTuple
from uuid import UUID

import click

from statemachine.image.bulk_replay import replay_values
from statemachine.image.image import Image
from statemachine.records.codec import encode
from statemachine.records.kafka_records import AccessControlEntry, RemoveAccessControlEntry
from statemachine.replay import replay
from statemachine.security.authorizer import (
    Authorizer,
    Operation,
    PatternType,
    PermissionType,
    ResourceType,
)

TEAMS: Final = 500
APPLICATIONS: Final = 5_000
STREAMS: Final = 50
LEVEL: Final = 29
TIMES: Final = 5
BATCH: Final = 2_000
CHANGES: Final = 2_000

_OPERATIONS: Final = tuple(each for each in Operation if each > Operation.ALL)
_TYPES: Final = (
    ResourceType.TOPIC,
    ResourceType.TOPIC,
    ResourceType.GROUP,
    ResourceType.TRANSACTIONAL_ID,
)


class Request(NamedTuple):
    """The arguments of `Authorizer.authorize`."""

    principal: str
    host: str
    operation: Operation
    resource_type: ResourceType
    resource_name: str


def random_acls(rng: random.Random, count: int) -> list[AccessControlEntry]:
    """Make ACLs that all differ."""
    return [_acl(rng, number) for number in range(count)]


def _acl(rng: random.Random, number: int) -> AccessControlEntry:
    team, application = rng.randrange(TEAMS), rng.randrange(APPLICATIONS)
    is_prefix = rng.random() < 0.5
    name = _name(rng, team, application)
    if is_prefix:
        name = ".".join(name.split(".")[: rng.randint(1, 4)])
    elif rng.random() < 0.001:
        name = "*"
    return AccessControlEntry(
        id=UUID(int=rng.getrandbits(128), version=4),
        resource_type=rng.choice(_TYPES),
        resource_name=name,
        pattern_type=PatternType.PREFIXED if is_prefix else PatternType.LITERAL,
        # The number makes each ACL another one.
        principal=f"User:service-{number % APPLICATIONS}",
        host="*" if rng.random() < 0.7 else f"10.{number % 250}.{number // 250 % 250}.7",
        operation=rng.choice(_OPERATIONS),
        permission_type=PermissionType.DENY if rng.random() < 0.02 else PermissionType.ALLOW,
    )


def _name(rng: random.Random, team: int, application: int) -> str:
    return f"team-{team}.app-{application}.stream-{rng.randrange(STREAMS)}.{rng.randrange(1_000)}"


def random_requests(
    rng: random.Random, acls: Sequence[AccessControlEntry], count: int
) -> list[Request]:
    """Make requests for resources that ACLs cover, half of them by the principal of the ACL."""
    found = []
    for _ in range(count):
        acl = rng.choice(acls)
        owner = acl.principal if rng.random() < 0.5 else f"User:service-{rng.randrange(9_999)}"
        end = f".app-{rng.randrange(APPLICATIONS)}" if acl.pattern_type == 4 else ""
        found.append(
            Request(
                owner,
                "10.1.2.3" if acl.host == "*" else acl.host,
                Operation(acl.operation) if rng.random() < 0.5 else rng.choice(_OPERATIONS),
                ResourceType(acl.resource_type),
                f"{acl.resource_name}{end}",
            )
        )
    return found


def loaded(acls: Sequence[AccessControlEntry]) -> tuple[Image, float]:
    """Return an image that has read these ACLs from its log, and the seconds that it took."""
    values = [encode(acl, LEVEL) for acl in acls]
    image, began = Image(), time.perf_counter()
    for first in range(0, len(values), BATCH):
        replay_values(image, values[first : first + BATCH], image.end_offset)
    return image, time.perf_counter() - began


def decision_us(authorizer: Authorizer, requests: Sequence[Request]) -> list[float]:
    """Return the time of each decision."""
    clock, authorize, found = time.perf_counter_ns, authorizer.authorize, []
    for asked in requests:
        fastest = 1 << 62
        for _ in range(TIMES):
            began = clock()
            authorize(*asked)
            fastest = min(fastest, clock() - began)
        found.append(fastest / 1_000)
    return found


def change_us(image: Image, acls: Sequence[AccessControlEntry]) -> float:
    """Return the time to remove an ACL and to add it again."""
    began = time.perf_counter()
    for acl in acls:
        replay(image, RemoveAccessControlEntry(id=acl.id), image.end_offset)
        replay(image, acl, image.end_offset)
    return (time.perf_counter() - began) / len(acls) * 1_000_000


@click.command(help=__doc__)
@click.option("--acls", "count", type=click.IntRange(1), default=100_000, show_default=True)
@click.option("--requests", type=click.IntRange(1), default=100_000, show_default=True)
@click.option("--seed", type=int, default=1, show_default=True)
def main(count: int, requests: int, seed: int) -> None:
    rng = random.Random(seed)
    acls = random_acls(rng, count)
    tracemalloc.start()
    measured, _ = loaded(acls)
    gc.collect()
    bytes_used = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    image, seconds = loaded(acls)
    assert measured.acl_index.version == image.acl_index.version == count
    del measured
    gc.collect()
    gc.freeze()
    authorizer = Authorizer(image)
    asked = random_requests(rng, acls, requests)
    allowed = sum(authorizer.authorize(*each).allowed for each in asked)
    times = sorted(decision_us(authorizer, asked))
    click.echo(f"{len(image.acls):,} ACLs, read in {seconds:.2f} s, {bytes_used / 1e6:.1f} MB")
    click.echo(
        f"{len(times):,} decisions, {allowed / len(times):.0%} allowed: median "
        f"{statistics.median(times):.1f} us, 99.9% {times[len(times) * 999 // 1_000]:.1f} us, "
        f"worst {times[-1]:.1f} us"
    )
    changed = rng.sample(acls, min(CHANGES, count))
    click.echo(f"a removal and a creation: {change_us(image, changed):.1f} us")


if __name__ == "__main__":
    main()
