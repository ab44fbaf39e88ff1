"""Kafka's own StandardAuthorizer, asked the same as ours: every decision is equal.

`make authorizer-oracle` asks 100,000 times.
"""

import random
import subprocess
from collections.abc import Iterator
from typing import Final

import pytest

from quorum.core.vocabulary import uuid_to_text
from statemachine.security.authorizer import Authorizer, Operation
from tests.statemachine.support.acl_sets import Request, Scene, image_of, random_scene
from tests.support.kafka_tools import VERSIONS, runtime
from tests.support.tree import ROOT

pytestmark = pytest.mark.process

SOURCE: Final = ROOT / "tests" / "process" / "support" / "AuthorizerOracle.java"
REQUESTS_OF_SCENE: Final = 100
ORACLE_SECONDS_MAX: Final = 240


def lines(scene: Scene) -> Iterator[str]:
    """Yield the lines of a scene for the oracle."""
    yield f"scene\t{';'.join(scene.super_users)}\t{str(scene.allow_if_no_acl).lower()}"
    for acl in scene.acls:
        number, *fields = [getattr(acl, name) for name in acl.__struct_fields__]
        yield "\t".join(["acl", uuid_to_text(number), *(str(_plain(each)) for each in fields)])
    for asked in scene.requests:
        yield "\t".join(["ask", *(str(_plain(each)) for each in asked)])


def _plain(value: int | str) -> int | str:
    return int(value) if isinstance(value, int) else value


def ours(scene: Scene) -> Iterator[tuple[Request, str]]:
    authorizer = Authorizer(
        image_of(scene.acls), super_users=scene.super_users, allow_if_no_acl=scene.allow_if_no_acl
    )
    for asked in scene.requests:
        one = authorizer.authorize(*asked).allowed
        some = authorizer.authorize_by_resource_type(*asked[:4]).allowed
        yield asked, " ".join("allowed" if each else "denied" for each in (one, some))


@pytest.mark.parametrize("version", VERSIONS)
def test_every_decision_is_that_of_kafkas_own_authorizer(
    version: str, authorizer_requests: int
) -> None:
    rng = random.Random(f"{version} {authorizer_requests}")
    # TWO_PHASE_COMMIT is not in every release.
    newest = Operation.DESCRIBE_TOKENS if version.startswith("3.") else max(Operation)
    operations = newest - Operation.ALL
    scenes = [
        random_scene(
            rng,
            acls=rng.choice([0, 3, 20, 100, 400]),
            requests=REQUESTS_OF_SCENE,
            operations=operations,
        )
        for _ in range(authorizer_requests // REQUESTS_OF_SCENE)
    ]
    done = subprocess.run(
        runtime(version).tool(str(SOURCE), []),
        input="\n".join(line for scene in scenes for line in lines(scene)),
        capture_output=True,
        text=True,
        encoding="utf-8",
        timeout=ORACLE_SECONDS_MAX,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    theirs = [
        line for line in done.stdout.splitlines() if line.split(" ")[0] in {"allowed", "denied"}
    ]
    found = [each for scene in scenes for each in ours(scene)]
    assert len(theirs) == len(found) == authorizer_requests
    wrong = [(*each, other) for each, other in zip(found, theirs, strict=True) if each[1] != other]
    assert not wrong, f"{len(wrong)} of {len(found)} differ: {wrong[:3]}"
    assert {answer for _, answer in found} == {
        "allowed allowed",
        "allowed denied",
        "denied allowed",
        "denied denied",
    }
