import itertools
from dataclasses import replace
from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quorum.core.vocabulary import ReplicaId
from quorum.discovery.gossip import Advertisement, Gossip, impossible

NODES: Final = 5


def seen(id: int, boot: int, port: int | None = None) -> Advertisement:
    """A node at a port of its own at each boot, unless the test says otherwise."""
    return Advertisement(
        id=ReplicaId(id),
        boot_timestamp=boot,
        host=f"host-{id}",
        port=10_000 + boot if port is None else port,
    )


advertisements = st.builds(seen, st.integers(0, NODES - 1), st.integers(0, 20))
hearsay = st.lists(advertisements, max_size=12)
twice = st.builds(seen, st.integers(0, NODES - 1), st.integers(0, 5), port=st.integers(1, 3))
"""Advertisements of nodes that booted repeatedly from the same older copy of their disk."""


@given(st.lists(hearsay, max_size=6))
def test_an_entry_is_replaced_only_by_a_later_boot(heard: list[list[Advertisement]]) -> None:
    """KIP-595: only cached values of a smaller boot timestamp are replaced."""
    gossip = Gossip(None)
    for each in heard:
        before = {s.id: s for s in gossip.advertisements}
        news = gossip.learn(each)
        after = {s.id: s for s in gossip.advertisements}
        for id_, old in before.items():
            assert after[id_] == old or after[id_].boot_timestamp > old.boot_timestamp
        assert {s.id for s in news} == {id_ for id_ in after if after[id_] != before.get(id_)}


@given(st.one_of(hearsay, st.lists(twice, max_size=12)), st.randoms(use_true_random=False))
def test_the_order_of_hearing_changes_nothing(heard: list[Advertisement], rng: object) -> None:
    shuffled = sorted(heard, key=lambda _: rng.random())  # type: ignore[attr-defined]
    at_once, one_by_one = Gossip(None), Gossip(None)
    at_once.learn(heard)
    for each in shuffled:
        one_by_one.learn([each])
    assert at_once.advertisements == one_by_one.advertisements


@given(hearsay, st.integers(0, 4), st.randoms(use_true_random=False))
def test_the_order_does_not_matter_at_the_limit_either(
    heard: list[Advertisement], most: int, rng: object
) -> None:
    shuffled = sorted(heard, key=lambda _: rng.random())  # type: ignore[attr-defined]
    at_once, one_by_one = Gossip(None, most=most), Gossip(None, most=most)
    at_once.learn(heard)
    for each in shuffled:
        one_by_one.learn([each])
    assert len(at_once.advertisements) <= most
    assert at_once.advertisements == one_by_one.advertisements


class GossipNetwork:
    """Nodes that were booted a few times, each of which may have heard of some of the others."""

    def __init__(self, boots: list[int]) -> None:
        self.nodes = [Gossip(seen(id_, boot)) for id_, boot in enumerate(boots)]

    def exchange(self, asker: int, asked: int) -> None:
        """One request with the asker's own place, one answer with everything: both teach."""
        me = self.nodes[asker].me
        assert me is not None
        self.nodes[asked].learn([me])
        self.nodes[asker].learn(self.nodes[asked].advertisements)


exchanges = st.lists(
    st.tuples(st.integers(0, NODES - 1), st.integers(0, NODES - 1)).filter(lambda t: t[0] != t[1]),
    max_size=30,
)


@given(
    st.lists(st.integers(1, 20), min_size=NODES, max_size=NODES),
    st.lists(hearsay, min_size=NODES, max_size=NODES),
    exchanges,
    st.permutations(list(itertools.permutations(range(NODES), 2))),
)
def test_after_exchanges_in_any_order_all_nodes_know_the_same(
    boots: list[int],
    heard_before: list[list[Advertisement]],
    before: list[tuple[int, int]],
    everyone_asks_everyone: list[tuple[int, int]],
) -> None:
    """R22: gossip is monotone, and it converges: two rounds in which everyone asks everyone."""
    network = GossipNetwork(boots)
    for node, heard in zip(network.nodes, heard_before, strict=True):
        # Nobody tells of a boot that has not been.
        node.learn(each for each in heard if each.boot_timestamp <= boots[each.id])
    for pair in (*before, *everyone_asks_everyone, *everyone_asks_everyone):
        network.exchange(*pair)
    truth = tuple(seen(id_, boot) for id_, boot in enumerate(boots))
    assert all(node.advertisements == truth for node in network.nodes)


def test_nodes_to_be_kept_are_never_forgotten() -> None:
    gossip = Gossip(seen(9, 1), most=2)
    gossip.keep([ReplicaId(1)])
    gossip.learn([seen(1, 1), seen(2, 5), seen(3, 6), seen(4, 7)])
    assert [each.id for each in gossip.advertisements] == [1, 3, 4, 9]
    gossip.keep([])
    assert [each.id for each in gossip.advertisements] == [3, 4, 9]


def test_a_node_believes_nobody_about_itself() -> None:
    gossip = Gossip(seen(1, 5))
    assert gossip.learn([seen(1, 9, port=666)]) == ()
    assert gossip.advertisements == (seen(1, 5),)


def test_a_contradicted_node_announces_itself_again() -> None:
    """A disk was lost, and the clock has gone back since: the new boot looks like the older one."""
    gossip, other = Gossip(seen(1, 5)), Gossip(seen(2, 1))
    other.learn([seen(1, 9, port=666)])
    rival = gossip.contradiction(other.advertisements)
    assert rival == seen(1, 9, port=666)
    gossip.advertise_again(rival.boot_timestamp + 1)
    other.learn(gossip.advertisements)
    assert other.of(ReplicaId(1)) == seen(1, 10, port=10_005)
    assert gossip.contradiction(other.advertisements) is None


def test_two_addresses_of_one_boot_converge_to_one() -> None:
    """An older copy of a disk was put back twice, and the clock had gone back: one node has heard
    of the first of two boots that are called the same, all others of the second one."""
    first, second = seen(1, 5, port=666), seen(1, 5, port=667)
    for told in (first, second):
        node, astray = Gossip(told), Gossip(seen(2, 1))
        other = Gossip(seen(3, 1))
        astray.learn([first])
        other.learn([second])
        astray.learn(other.advertisements)
        other.learn(astray.advertisements)
        assert astray.advertisements == other.advertisements
        rival = node.contradiction(other.advertisements)
        assert (rival is None) == (other.of(ReplicaId(1)) == told)


def test_an_echo_of_our_own_word_contradicts_nothing() -> None:
    gossip = Gossip(seen(1, 5))
    assert gossip.contradiction([seen(1, 5), seen(1, 4), seen(2, 99)]) is None
    assert gossip.contradiction([seen(1, 5, port=666)]) is not None
    assert Gossip(None).contradiction([seen(1, 5)]) is None


@pytest.mark.parametrize(
    ("wrong", "why"),
    [
        ({"id": ReplicaId(-1)}, "ids begin at 0"),
        ({"boot_timestamp": -1}, "not 0 to"),
        ({"boot_timestamp": 2**63 - 1}, "not 0 to"),
        ({"host": ""}, "an invalid host"),
        ({"host": "a" * 256}, "an invalid host"),
        ({"host": "a\nb"}, "an invalid host"),
        ({"port": 0}, "ports are 1 to 65535"),
        ({"port": 65_536}, "ports are 1 to 65535"),
    ],
)
def test_an_impossible_entry_is_refused_with_a_reason(wrong: dict[str, object], why: str) -> None:
    advertisement = seen(1, 5)
    assert impossible(advertisement) is None
    reason = impossible(replace(advertisement, **wrong))  # type: ignore[arg-type]
    assert reason is not None
    assert why in reason


def test_a_release_is_learned_even_after_an_older_node_has_passed_on_the_address() -> None:
    """An older node drops the field; that contradicts nobody, and is no news."""
    mine = replace(seen(1, 5), software_version="0.1.0")
    gossip = Gossip(mine)
    assert gossip.contradiction([seen(1, 5)]) is None
    assert gossip.learn([seen(2, 5)])
    newer = replace(seen(2, 5), software_version="0.2.0")
    assert gossip.learn([newer]) == ()
    assert gossip.advertisements[1].software_version == "0.2.0"
    assert gossip.learn([seen(2, 5)]) == ()
    assert gossip.advertisements[1].software_version == "0.2.0"
