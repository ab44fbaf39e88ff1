"""The quorum as text: KIP-595's example, and the output of Kafka 4.2's tool for a cluster."""

from typing import Any
from uuid import UUID

from admin.capabilities.quorum import Quorum, quorum_of
from admin.cli.quorum_text import (
    kafka_replication,
    kafka_status,
    replication,
    replication_data,
    status,
    status_data,
)
from controller.quorum_description import QuorumDescription, ReplicaInfo
from quorum.core.vocabulary import uuid_from_text
from quorum.transport.address import Address

ZERO = UUID(int=0)
NOW_MS = 1_795_236_570_700


def described(**fields: Any) -> Quorum:
    return quorum_of(QuorumDescription(**fields))


def replica(id: int, end: int, lag_time_ms: int) -> ReplicaInfo:
    caught_up_ms = NOW_MS - lag_time_ms
    return ReplicaInfo(
        id=id,
        directory_id=ZERO,
        log_end_offset=end,
        last_fetch_ms=caught_up_ms,
        last_caught_up_ms=caught_up_ms,
    )


KIP_595 = described(
    cluster_id="4L6g3nShT-eMCtK--X86sw",
    leader_id=0,
    leader_epoch=15,
    high_watermark=234130,
    voters=(replica(0, 234134, 0), replica(1, 234130, 10), replica(2, 234100, 15)),
    observers=(replica(3, 234124, 12), replica(4, 234130, 15)),
    addresses={},
    target_voters=(4, 0, 3),
)


def test_the_status_is_that_of_the_seed() -> None:
    """KIP-595, `kafka-metadata-quorum.sh --describe`."""
    assert status(KIP_595) == (
        "LeaderId:               0\n"
        "LeaderEpoch:            15\n"
        "HighWatermark:          234130\n"
        "MaxFollowerLag:         34\n"
        "MaxFollowerLagTimeMs:   15\n"
        "CurrentVoters:          [0, 1, 2]\n"
        "TargetVoters:           [0, 3, 4]"
    )


def test_the_replication_table_is_that_of_the_seed() -> None:
    """KIP-595, `kafka-metadata-quorum.sh --describe replication`."""
    assert replication(KIP_595) == (
        "ReplicaId  LogEndOffset  Lag  LagTimeMs  Status    IsReassignTarget\n"
        "0          234134        0    0          Leader    Yes\n"
        "1          234130        4    10         Follower  No\n"
        "2          234100        34   15         Follower  No\n"
        "3          234124        10   12         Observer  Yes\n"
        "4          234130        4    15         Observer  Yes"
    )


def test_lag_times_can_be_read_by_people() -> None:
    rows = replication(KIP_595, human_readable=True).splitlines()
    assert [row.split("  ")[0] for row in rows[1:]] == ["0", "1", "2", "3", "4"]
    assert "34   15 ms" in rows[3]


def kafka_replica(id: int, directory: str, end: int, fetch_ms: int) -> ReplicaInfo:
    return ReplicaInfo(
        id=id,
        directory_id=uuid_from_text(directory),
        log_end_offset=end,
        last_fetch_ms=fetch_ms,
        last_caught_up_ms=fetch_ms,
    )


KAFKA_4_2 = described(
    cluster_id="4L6g3nShT-eMCtK--X86sw",
    leader_id=1,
    leader_epoch=1,
    high_watermark=122,
    voters=(
        kafka_replica(1, "Hb0r3ZQ2T0mW2bIYvQmZ1A", 123, 1795236570697),
        kafka_replica(2, "k5C0uO1nQ8yJqQm8XH2mBg", 123, 1795236570410),
    ),
    observers=(kafka_replica(101, "cyaHtgw_alFak7p3-B-nMA", 123, 1795236570416),),
    addresses={
        1: (("CONTROLLER", Address("127.0.0.1", 19001)),),
        2: (("CONTROLLER", Address("127.0.0.1", 19002)),),
    },
)


def test_the_status_of_kafkas_present_tool_is_the_same_to_the_letter() -> None:
    assert kafka_status(KAFKA_4_2) == (
        "ClusterId:              4L6g3nShT-eMCtK--X86sw\n"
        "LeaderId:               1\n"
        "LeaderEpoch:            1\n"
        "HighWatermark:          122\n"
        "MaxFollowerLag:         0\n"
        "MaxFollowerLagTimeMs:   0\n"
        'CurrentVoters:          [{"id": 1, "directoryId": "Hb0r3ZQ2T0mW2bIYvQmZ1A", '
        '"endpoints": ["CONTROLLER://127.0.0.1:19001"]}, {"id": 2, "directoryId": '
        '"k5C0uO1nQ8yJqQm8XH2mBg", "endpoints": ["CONTROLLER://127.0.0.1:19002"]}]\n'
        'CurrentObservers:       [{"id": 101, "directoryId": "cyaHtgw_alFak7p3-B-nMA"}]'
    )


def test_the_table_of_kafkas_present_tool_is_the_same_to_the_letter() -> None:
    assert kafka_replication(KAFKA_4_2, human_readable=False, now_ms=NOW_MS) == (
        "NodeId\tDirectoryId           \tLogEndOffset\tLag\tLastFetchTimestamp\t"
        "LastCaughtUpTimestamp\tStatus  \t\n"
        "1     \tHb0r3ZQ2T0mW2bIYvQmZ1A\t123         \t0  \t1795236570697     \t"
        "1795236570697        \tLeader  \t\n"
        "2     \tk5C0uO1nQ8yJqQm8XH2mBg\t123         \t0  \t1795236570410     \t"
        "1795236570410        \tFollower\t\n"
        "101   \tcyaHtgw_alFak7p3-B-nMA\t123         \t0  \t1795236570416     \t"
        "1795236570416        \tObserver\t"
    )


def test_times_of_kafkas_table_can_be_read_by_people() -> None:
    table = kafka_replication(KAFKA_4_2, human_readable=True, now_ms=NOW_MS)
    assert "\t290 ms ago" in table.splitlines()[2]


DEAD_FOLLOWER = described(
    cluster_id=None,
    leader_id=3,
    leader_epoch=3,
    high_watermark=133,
    voters=(
        ReplicaInfo(id=1, directory_id=ZERO, log_end_offset=0),
        kafka_replica(3, "5n0Q2mJ7RyS1xWw1eEo3Kw", 134, NOW_MS),
    ),
    observers=(),
    addresses={},
)


def test_a_voter_never_heard_of_has_an_unknown_lag_in_time() -> None:
    """As Kafka's tool printed after a controller had been killed: lag 134, time -1."""
    assert "MaxFollowerLag:         134\nMaxFollowerLagTimeMs:   -1\n" in status(DEAD_FOLLOWER)
    assert '{"id": 1, "directoryId": null}' in kafka_status(DEAD_FOLLOWER)
    assert replication(DEAD_FOLLOWER, human_readable=True).splitlines()[2].split()[3] == "unknown"


def test_without_a_target_none_is_shown() -> None:
    assert status(DEAD_FOLLOWER).endswith("TargetVoters:           []")
    assert replication(DEAD_FOLLOWER).count(" No") == 2


def test_a_leader_that_is_not_a_voter_any_more_leaves_lags_unknown() -> None:
    leaving = described(
        cluster_id=None,
        leader_id=1,
        leader_epoch=4,
        high_watermark=9,
        voters=(replica(2, 9, 0),),
        observers=(replica(1, 9, 0),),
        addresses={},
    )
    assert "MaxFollowerLag:         -1\nMaxFollowerLagTimeMs:   -1\n" in status(leaving)
    assert replication_data(leaving)["replicas"][0]["lag"] == -1


def test_a_stale_answer_that_does_not_know_the_end_of_the_leader_has_no_lag() -> None:
    """A follower knows its own end alone; it is not ahead of the leader by all of it."""
    heard = described(
        cluster_id=None,
        leader_id=2,
        leader_epoch=2,
        high_watermark=344,
        voters=(
            ReplicaInfo(id=1, directory_id=ZERO, log_end_offset=344),
            ReplicaInfo(id=2, directory_id=ZERO, log_end_offset=-1),
        ),
        observers=(),
        addresses={},
    )
    assert "MaxFollowerLag:         -1\n" in status(heard)
    lags = {each["replica_id"]: each["lag"] for each in replication_data(heard)["replicas"]}
    assert lags == {1: -1, 2: -1}


def test_data_has_the_same_facts_under_names_of_its_own() -> None:
    data = status_data(KIP_595)
    assert data["max_follower_lag"] == 34
    assert data["target_voters"] == [0, 3, 4]
    assert [voter["id"] for voter in data["current_voters"]] == [0, 1, 2]
    rows = replication_data(KIP_595)["replicas"]
    assert [(row["replica_id"], row["lag"], row["lag_time_ms"]) for row in rows] == [
        (0, 0, 0),
        (1, 4, 10),
        (2, 34, 15),
        (3, 10, 12),
        (4, 4, 15),
    ]
