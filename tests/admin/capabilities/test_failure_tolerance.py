"""The failure tolerance in the description of the quorum."""

from uuid import UUID

import pytest

from admin.capabilities.quorum import quorum_of
from admin.monitoring.health_rules import NOT_FETCHING_MS
from controller.quorum_description import UNKNOWN, QuorumDescription, ReplicaInfo

NOW_MS = 1_000_000


def replica(number: int, fetched_ms: int, caught_up_ms: int = UNKNOWN) -> ReplicaInfo:
    return ReplicaInfo(
        id=number,
        directory_id=UUID(int=number),
        log_end_offset=9,
        last_fetch_ms=fetched_ms,
        last_caught_up_ms=caught_up_ms,
    )


@pytest.mark.parametrize(
    ("leader_ms", "ago_ms", "tolerated", "reachable"),
    [
        (NOW_MS, NOT_FETCHING_MS - 1, 1, [True, True, True]),
        (NOW_MS, NOT_FETCHING_MS, 0, [True, True, False]),
        # A node that does not lead knows nothing of the others.
        (UNKNOWN, 0, None, [None, None, None]),
    ],
)
def test_voters_that_have_fetched_lately_count(
    leader_ms: int, ago_ms: int, tolerated: int | None, reachable: list[bool | None]
) -> None:
    voters = (
        replica(1, leader_ms, leader_ms),
        replica(2, NOW_MS - 1),
        replica(3, NOW_MS - ago_ms),
    )
    found = quorum_of(
        QuorumDescription(
            cluster_id=None,
            leader_id=1,
            leader_epoch=1,
            high_watermark=9,
            voters=voters,
            observers=(),
            addresses={},
        )
    )
    assert found.failure_tolerance == tolerated
    assert [each.reachable for each in found.current_voters] == reachable
