"""The schedule of questions, and the use of answers; times are given, and nothing is sent."""

import logging
import random
from dataclasses import dataclass, field, replace
from typing import cast
from uuid import UUID

import pytest

from quorum.clocks import monotonic_ms
from quorum.cluster_id import ClusterIdentity
from quorum.core.node import QuorumNode
from quorum.core.vocabulary import Epoch, HostPort, Offset, ReplicaId
from quorum.core.voter_set import VoterSet
from quorum.discovery.address_book import AddressBook
from quorum.discovery.discover_brokers import DiscoverBrokersService
from quorum.discovery.gossip import (
    Advertisement,
    DiscoverBrokersRequest,
    DiscoverBrokersResponse,
    Gossip,
)
from quorum.discovery.schedule import (
    ADVERTISE_AGAIN_MS,
    ADVERTISE_AGAIN_TRIES,
    ASKED_AT_ONCE_MAX,
    LED_BACK_MAX,
    ROUTINE_MS,
    SEARCH_MS,
    SEARCH_MS_MAX,
    SURVEY_TRIES,
    DiscoverySchedule,
)
from quorum.transport.refusal_log import RefusalLog
from quorum.transport.sweeper import Sweeper
from tests.quorum.transport.loopback import HOST
from tests.quorum.transport.security.secured import (
    alice,
    mechanisms,
    sasl_client,
    sasl_listener,
    secured,
)


@dataclass(kw_only=True)
class QuorumState:
    """The parts of a quorum node that the schedule reads."""

    leader: ReplicaId | None = ReplicaId(1)
    epoch: Epoch = Epoch(3)
    high_watermark: Offset | None = Offset(1)


def lost() -> QuorumState:
    return QuorumState(leader=None, epoch=Epoch(0), high_watermark=None)


def at(replica: int, port: int, boot: int = 1) -> Advertisement:
    return Advertisement(id=ReplicaId(replica), boot_timestamp=boot, host="h", port=port)


@dataclass
class Node:
    """Node 1, which listens at port 1, and what it has told its owner."""

    bootstrap: tuple[HostPort, ...] = ()
    cluster_id: str | None = None
    quorum: QuorumState = field(default_factory=lost)
    surveys: list[bool] = field(default_factory=list)
    rivals: list[Advertisement] = field(default_factory=list)
    kept: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.book = AddressBook(Gossip(at(1, 1)), bootstrap=self.bootstrap)
        self.cluster = ClusterIdentity(
            self.cluster_id,
            keep=lambda id_, done: (self.kept.append(id_), done())[1],  # type: ignore[func-returns-value]
            make=lambda: "made",
        )
        self.discovery = DiscoverySchedule(
            self.book,
            self.cluster,
            cast(QuorumNode, self.quorum),
            has_log=False,
            surveyed=self.surveys.append,
            advertise_again=self.rivals.append,
            rng=random.Random(1),
            now_ms=0,
        )

    def hears(
        self, place: HostPort, *brokers: Advertisement, cluster_id: str | None = None
    ) -> str | None:
        answer = DiscoverBrokersResponse(cluster_id=cluster_id, brokers=brokers)
        return self.discovery.heard(place, answer, 0)

    def is_asked_by(self, advertisement: Advertisement, now_ms: int) -> None:
        request = DiscoverBrokersRequest(cluster_id=self.cluster_id, advertisement=advertisement)
        assert isinstance(self.discovery.asked(request, now_ms), DiscoverBrokersResponse)


def test_bootstrap_servers_are_asked_at_once_and_then_whoever_they_name() -> None:
    node = Node(bootstrap=(("vip", 9),))
    assert node.discovery.is_due(0)
    assert node.discovery.round(0) == (("vip", 9),)
    node.hears(("vip", 9), at(2, 2), at(3, 3))
    assert set(node.discovery.round(100)) == {("vip", 9), ("h", 2), ("h", 3)}


def test_an_observer_that_takes_no_controllers_is_asked_again_once_it_advertises_anew() -> None:
    """Gossip keeps the listener that a broker advertised before it was secured."""
    vip, broker, controller = ("vip", 9), ("h", 101), ("h", 2)
    node = Node(bootstrap=(vip,), cluster_id="c")
    node.discovery.round(0)
    node.hears(vip, at(101, 101), at(2, 2), cluster_id="c")
    assert set(node.discovery.round(0)) == {vip, broker, controller}
    assert node.discovery.failed(broker, is_refused=True)
    # A bootstrap server is asked again, and so is what did not answer at all.
    assert not node.discovery.failed(vip, is_refused=True)
    assert not node.discovery.failed(controller)
    assert set(node.discovery.round(0)) == {vip, controller}
    # A search for the leader does not connect there either.
    assert node.book.address_of(ReplicaId(101)) is None
    node.hears(vip, at(101, 101), cluster_id="c")
    node.discovery.failed(controller)
    assert set(node.discovery.round(0)) == {vip, controller}
    node.hears(vip, at(101, 101, boot=2), cluster_id="c")
    node.discovery.failed(controller)
    assert set(node.discovery.round(0)) == {vip, broker, controller}
    assert node.book.address_of(ReplicaId(101)) == broker


async def test_an_observer_that_takes_no_controllers_is_named_once_and_without_alarm(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO)
    scram = {"SCRAM-SHA-512": mechanisms()["SCRAM-SHA-512"]}
    node = Node(cluster_id="c")
    sweeper = Sweeper(monotonic_ms)
    service = DiscoverBrokersService(
        node.discovery,
        client_id="test",
        sweeper=sweeper,
        clock=monotonic_ms,
        wall_clock=monotonic_ms,
        rng=random.Random(1),
        timeout_ms=20_000,
        refusal_log=RefusalLog("test", monotonic_ms),
        security=sasl_client(alice("PLAIN")),
    )
    async with secured(sasl_listener(scram)) as (_, port, _):
        broker = replace(at(101, port), host=HOST)
        node.is_asked_by(broker, 0)
        assert node.discovery.round(0) == (broker.address,)
        caplog.clear()
        await service._ask(broker.address)
        assert node.discovery.round(0) == ()
    sweeper.close()
    said = [each for each in caplog.records if each.module != "refusal_log"]
    assert [(each.levelname, each.getMessage()) for each in said] == [
        (
            "INFO",
            f"Node at {HOST}:{port} takes no controllers, so it is not asked again: "
            "DiscoverBrokers: no secure connection: it does not enable PLAIN; enabled are: "
            "SCRAM-SHA-512",
        )
    ]


def test_nobody_is_asked_twice_at_a_time() -> None:
    node = Node(bootstrap=(("vip", 9),))
    assert node.discovery.round(0) == (("vip", 9),)
    assert node.discovery.round(100) == ()
    node.discovery.failed(("vip", 9))
    assert node.discovery.round(200) == (("vip", 9),)


def test_a_search_waits_longer_each_time_up_to_a_bound() -> None:
    node, now_ms, waits = Node(bootstrap=(("vip", 9),)), 0, list[int]()
    for _ in range(8):
        node.discovery.round(now_ms)
        waits.append(node.discovery.deadline_ms - now_ms)
        now_ms = node.discovery.deadline_ms
    assert waits[0] <= SEARCH_MS * 1.2
    assert waits[1] > waits[0]
    assert SEARCH_MS_MAX * 0.8 <= waits[-1] <= SEARCH_MS_MAX * 1.2


def test_a_node_that_misses_nothing_asks_another_one_now_and_then() -> None:
    node = Node(quorum=QuorumState())
    node.book.learn([at(each, each) for each in range(2, 40)])
    assert len(node.discovery.round(0)) == 1
    assert node.discovery.deadline_ms >= ROUTINE_MS * 0.8
    assert not node.discovery.is_due(1_000)


def test_a_node_that_loses_its_leader_searches_at_once() -> None:
    node = Node(quorum=QuorumState())
    node.discovery.round(0)
    node.quorum.leader = None
    assert node.discovery.is_due(1_000)
    node.discovery.round(1_000)
    assert not node.discovery.is_due(1_001)
    assert node.discovery.deadline_ms < 1_200


def test_a_voter_that_is_nowhere_is_searched_for() -> None:
    node = Node(quorum=QuorumState())
    node.book.voters = lambda: VoterSet.of(1, 2)
    assert node.discovery.is_searching
    node.book.learn([at(2, 2)])
    assert not node.discovery.is_searching


def test_a_round_is_bounded_and_bootstrap_servers_come_first() -> None:
    node = Node(bootstrap=(("vip", 9),))
    node.book.learn([at(each, each) for each in range(2, 100)])
    chosen = node.discovery.round(0)
    assert len(chosen) == len(set(chosen)) == ASKED_AT_ONCE_MAX
    assert ("vip", 9) in chosen


def test_both_sides_of_an_exchange_learn() -> None:
    node = Node(cluster_id="A")
    node.book.learn([at(3, 3)])
    answer = node.discovery.asked(DiscoverBrokersRequest(cluster_id="A", advertisement=at(2, 2)), 0)
    assert isinstance(answer, DiscoverBrokersResponse)
    assert answer.brokers == (at(1, 1), at(2, 2), at(3, 3))
    assert node.book.address_of(ReplicaId(2)) == ("h", 2)


def test_a_client_learns_and_teaches_nothing() -> None:
    node = Node(quorum=QuorumState())
    answer = node.discovery.asked(DiscoverBrokersRequest(cluster_id=None, advertisement=None), 0)
    assert isinstance(answer, DiscoverBrokersResponse)
    assert (answer.leader, answer.epoch, answer.is_founded) == (1, 3, True)
    assert node.book.replicas == (1,)


def test_nothing_is_learned_from_another_cluster() -> None:
    """R13: neither from who asks, nor from who is asked."""
    node = Node(cluster_id="A", bootstrap=(("vip", 9),))
    refusal = node.discovery.asked(
        DiscoverBrokersRequest(cluster_id="B", advertisement=at(2, 2)), 0
    )
    assert refusal == "the sender is of cluster B, this node of A"
    node.discovery.round(0)
    assert node.hears(("vip", 9), at(3, 3), cluster_id="B") is not None
    assert node.book.replicas == (1,)


def test_a_cluster_that_is_unknown_is_learned() -> None:
    node = Node(bootstrap=(("vip", 9),))
    node.discovery.round(0)
    assert node.hears(("vip", 9), cluster_id="A") is None
    assert (node.cluster.id, node.kept) == ("A", ["A"])
    assert node.discovery.request().cluster_id == "A"


def test_the_survey_ends_when_every_bootstrap_server_was_asked() -> None:
    node = Node(bootstrap=(("vip", 8), ("vip", 9)))
    node.discovery.round(0)
    node.hears(("vip", 9))
    for _ in range(SURVEY_TRIES):
        assert node.surveys == []
        node.discovery.failed(("vip", 8))
        node.discovery.round(100)
    assert node.surveys == [False]


def test_without_bootstrap_servers_there_is_no_survey_to_wait_for() -> None:
    node = Node()
    node.discovery.round(0)
    assert node.surveys == [False]
    own = Node(bootstrap=(("h", 1),))
    own.discovery.round(0)
    assert own.surveys == [False], "its own address among them does not count"


def test_its_own_answer_does_not_end_the_survey() -> None:
    node = Node(bootstrap=(("vip", 9),))
    own = DiscoverBrokersResponse(cluster_id=None, brokers=(at(1, 1),), answerer=ReplicaId(1))
    for _ in range(LED_BACK_MAX - 1):
        node.discovery.round(0)
        node.discovery.heard(("vip", 9), own, 0)
        assert node.discovery.deadline_ms <= SEARCH_MS * 1.2, "the next one may be another"
    assert node.surveys == []
    node.discovery.round(0)
    node.discovery.heard(("vip", 9), own, 0)
    assert node.surveys == [False], "it is another name of this node"


@pytest.mark.parametrize(
    "other",
    [
        DiscoverBrokersResponse(
            cluster_id=None, brokers=(at(1, 1), at(2, 2)), answerer=ReplicaId(2)
        ),
        DiscoverBrokersResponse(cluster_id=None, brokers=(at(1, 7),), answerer=ReplicaId(1)),
        DiscoverBrokersResponse(
            cluster_id=None,
            brokers=(replace(at(1, 1), directory_id=UUID(int=7)),),
            answerer=ReplicaId(1),
        ),
    ],
    ids=["another", "one of its id elsewhere", "one of its id with another directory"],
)
def test_the_answer_of_another_ends_the_survey(other: DiscoverBrokersResponse) -> None:
    node = Node(bootstrap=(("vip", 9),))
    node.discovery.round(0)
    node.discovery.heard(("vip", 9), other, 0)
    assert node.surveys == [False]


def test_a_quorum_that_is_found_is_told_once_whenever_it_is_found() -> None:
    node = Node(bootstrap=(("vip", 8), ("vip", 9)))
    founded = DiscoverBrokersResponse(cluster_id=None, brokers=(), is_founded=True)
    node.discovery.round(0)
    node.discovery.heard(("vip", 8), founded, 0)
    assert node.surveys == [True]
    node.discovery.heard(("vip", 9), founded, 0)
    assert node.surveys == [True]


def test_a_foreign_quorum_is_not_one_that_was_found() -> None:
    node = Node(cluster_id="A", bootstrap=(("vip", 9),))
    node.discovery.round(0)
    founded = DiscoverBrokersResponse(cluster_id="B", brokers=(), is_founded=True)
    assert node.discovery.heard(("vip", 9), founded, 0) is not None
    assert node.surveys == [False]


def test_a_node_that_is_taken_for_another_repeats_its_address_now_and_then() -> None:
    node = Node()
    rival = at(1, 666, boot=7)
    node.is_asked_by(rival, 0)
    node.discovery.advertised_again(8)
    node.is_asked_by(rival, 1)
    worse = at(1, 667, boot=9)
    node.is_asked_by(worse, 2)
    assert node.rivals == [rival]
    node.is_asked_by(rival, ADVERTISE_AGAIN_MS)
    assert node.rivals == [rival, worse]
    assert node.book.gossip.me == at(1, 1, boot=8)


def test_a_node_repeats_its_address_in_time_without_another_contradiction() -> None:
    """Any of many nodes may believe another address: the time to ask it again is random."""
    node = Node(cluster_id="A", quorum=QuorumState())
    node.discovery.round(0)
    node.is_asked_by(at(1, 666, boot=7), 1_000)
    node.discovery.advertised_again(8)
    node.discovery.round(1_000)
    node.is_asked_by(at(1, 667, boot=9), 1_001)
    due_ms = 1_000 + ADVERTISE_AGAIN_MS
    assert node.discovery.deadline_ms <= due_ms
    node.discovery.round(due_ms)
    assert [each.port for each in node.rivals] == [666, 667]


def test_a_node_that_announces_itself_again_asks_everyone_at_once() -> None:
    """A node that believes another address does not ask this one."""
    node = Node(cluster_id="A", quorum=QuorumState())
    node.book.learn([at(each, each) for each in range(2, 12)])
    assert len(node.discovery.round(0)) == 1
    node.is_asked_by(at(1, 666, boot=7), 1)
    assert not node.discovery.is_due(1)
    node.discovery.advertised_again(8)
    assert node.discovery.is_due(1)
    assert len(node.discovery.round(1)) == 9, "all but the one that is being asked already"
    assert not node.discovery.is_due(2)
    assert node.discovery.request().advertisement == at(1, 1, boot=8)


def test_a_node_that_announces_itself_again_tries_until_it_is_heard() -> None:
    """It may be lost, and a node that believes another address may not ask for long."""
    node = Node(cluster_id="A", quorum=QuorumState())
    node.book.learn([at(2, 2), at(3, 3)])
    early = node.discovery.round(0)
    node.is_asked_by(at(1, 666, boot=7), 1)
    node.discovery.advertised_again(8)
    nobody = DiscoverBrokersResponse(cluster_id="A", brokers=())
    asked = []
    now_ms = 1
    for _ in range(ADVERTISE_AGAIN_TRIES + 2):
        places = node.discovery.round(now_ms)
        asked.append(len(places))
        for place in places:
            node.discovery.failed(place)
        for place in early:
            # It was asked with the timestamp of before, and so has not been told.
            node.discovery.heard(place, nobody, now_ms)
        early = ()
        now_ms = node.discovery.deadline_ms
    assert asked == [1] + [2] * ADVERTISE_AGAIN_TRIES + [1], "in the end as seldom as ever"


def test_a_node_that_was_told_is_not_told_again() -> None:
    node = Node(cluster_id="A", quorum=QuorumState())
    node.book.learn([at(2, 2), at(3, 3)])
    node.is_asked_by(at(1, 666, boot=7), 1)
    node.discovery.advertised_again(8)
    nobody = DiscoverBrokersResponse(cluster_id="A", brokers=())
    for place in node.discovery.round(1):
        node.discovery.heard(place, nobody, 2)
    assert len(node.discovery.round(3)) == 1
    assert node.discovery.deadline_ms > ROUTINE_MS // 2


def test_one_thing_is_said_again_at_a_time_however_long_the_disk_takes() -> None:
    node = Node()
    rival = at(1, 666, boot=7)
    for now_ms in (0, ADVERTISE_AGAIN_MS, 2 * ADVERTISE_AGAIN_MS):
        node.is_asked_by(rival, now_ms)
    assert node.rivals == [rival]
    node.discovery.advertised_again(8)
    node.discovery.round(3 * ADVERTISE_AGAIN_MS)
    assert node.rivals == [rival], "it is answered by then"
