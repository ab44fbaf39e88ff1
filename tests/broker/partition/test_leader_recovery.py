"""After an unclean election the leader reports its recovery, also without other replicas."""

from pathlib import Path

from broker.limits import ALTER_PARTITION_RETRY_MS
from broker.partition.assignment import Assignment
from broker.partition.leader import CommittedIsr, IsrProposal, LeaderState
from statemachine.commands import ElectionType, ElectLeaders
from statemachine.vocabulary import NO_LEADER, RECOVERED, RECOVERING, Replicas
from tests.broker.embedded_cluster import cluster, until

INELIGIBLE_REPLICA = 107
LIVE = {1: 11, 2: 12}


def recovering(replicas: Replicas = (1,), *, log_end: int = 10) -> LeaderState:
    """Broker 1 leads since an unclean election; all of its log is written."""
    return LeaderState(
        1,
        Assignment(
            replicas=replicas,
            isr=(1,),
            leader=1,
            leader_epoch=5,
            partition_epoch=8,
            recovery=RECOVERING,
        ),
        log_end=log_end,
        written=log_end,
        high_watermark=0,
        now_ms=0,
        lag_ms_max=30_000,
    )


def propose(leader: LeaderState, now_ms: int = 1) -> IsrProposal | None:
    return leader.propose(LIVE[1], now_ms, LIVE)


def test_a_leader_without_followers_proposes_the_isr_that_there_is() -> None:
    """KIP-704: that a leader has recovered is said with an ISR."""
    leader = recovering()
    proposal = propose(leader)
    assert proposal == IsrProposal(isr=(1,), broker_epochs=(11,), leader_epoch=5, partition_epoch=8)
    assert propose(leader) is None, "it is under way"
    leader.on_committed(proposal, CommittedIsr((1,), 5, 9))
    assert leader.pending is None
    assert propose(leader) is None, "it is said"
    assert leader.assignment.recovery == RECOVERED


def test_a_refusal_is_asked_again_later() -> None:
    leader = recovering()
    proposal = propose(leader)
    assert proposal is not None
    assert not leader.on_refused(proposal, INELIGIBLE_REPLICA, 1)
    assert leader.pending is None
    assert propose(leader) is None
    assert propose(leader, 1 + ALTER_PARTITION_RETRY_MS) == proposal


def test_a_follower_that_has_caught_up_goes_into_the_same_proposal() -> None:
    leader = recovering((1, 2))
    leader.fetched(2, broker_epoch=12, offset=10, now_ms=1, live=LIVE)
    proposal = propose(leader)
    assert proposal is not None
    assert proposal.isr == (1, 2)


def test_a_recovered_leader_proposes_nothing_more() -> None:
    leader = recovering()
    leader.update(
        Assignment(replicas=(1,), isr=(1,), leader=1, leader_epoch=5, partition_epoch=9), now_ms=1
    )
    assert propose(leader) is None


async def test_a_partition_of_which_one_replica_is_left_recovers(tmp_path: Path) -> None:
    async with cluster(tmp_path, 1, 2) as brokers:
        controller = brokers.controller
        await brokers.create("t", (1, 2))
        for each in (2, 1):
            await brokers.stop(each)
            controller.fence(each)
        assert (controller.of("t").leader, controller.of("t").isr) == (NO_LEADER, (1,))
        await brokers.start(2)
        unclean = ElectLeaders(election=ElectionType.UNCLEAN, partitions=(("t", 0),))
        controller.decide(unclean)
        elected = controller.of("t")
        assert (elected.leader, elected.isr, elected.recovery) == (2, (2,), RECOVERING)
        await until(lambda: controller.of("t").recovery == RECOVERED)
        after = controller.of("t")
        assert (after.leader, after.isr, after.leader_epoch) == (2, (2,), elected.leader_epoch)
