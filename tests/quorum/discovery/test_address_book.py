from collections.abc import Sequence

from quorum.core.vocabulary import HostPort, ReplicaId, ReplicaKey
from quorum.core.voter_set import Endpoint, Voter, VoterSet
from quorum.discovery.address_book import CONFIRM_TRIES, HINTS_MAX, AddressBook
from quorum.discovery.gossip import Advertisement, Gossip

ONE, TWO, THREE = (ReplicaId(each) for each in (1, 2, 3))


def at(replica: ReplicaId, port: int, boot: int = 1) -> Advertisement:
    return Advertisement(id=replica, boot_timestamp=boot, host="h", port=port)


def book(
    configured: dict[ReplicaId, HostPort] | None = None, bootstrap: Sequence[HostPort] = ()
) -> AddressBook:
    return AddressBook(Gossip(at(THREE, 3)), configured=configured, bootstrap=bootstrap)


def voters(**ports: int) -> VoterSet:
    """An assignment of the voters one and two, as in a log."""
    ids = {"one": ONE, "two": TWO}
    return VoterSet(
        tuple(
            Voter(ReplicaKey(ids[name]), (Endpoint("CONTROLLER", "h", port),))
            for name, port in ports.items()
        )
    )


def test_a_replicas_own_announcement_precedes_all_other_sources() -> None:
    """Gossip, then the voters in the log, then what askers were told, then the configuration."""
    known = book({ONE: ("h", 10)})
    known.hint(ONE, ("h", 11))
    known.learn([at(ONE, 13)])
    assert known.address_of(ONE) == ("h", 13)


def test_gossip_about_a_voter_goes_before_the_log_once_the_voter_has_answered_there() -> None:
    """Anybody can say where a voter is."""
    known = book({ONE: ("h", 10)})
    assert known.address_of(ONE) == ("h", 10)
    known.hint(ONE, ("h", 11))
    assert known.address_of(ONE) == ("h", 11)
    known.voters = lambda: voters(one=12)
    assert known.address_of(ONE) == ("h", 12)
    told: list[Advertisement] = []
    known.on_news = told.extend
    known.learn([at(ONE, 13)])
    assert known.address_of(ONE) == ("h", 12)
    assert told == []
    assert list(known.unconfirmed) == [("h", 13)]
    known.answered(("h", 14), at(ONE, 14))
    assert known.address_of(ONE) == ("h", 12)
    known.answered(("h", 13), at(ONE, 13))
    assert known.address_of(ONE) == ("h", 13)
    assert told == [at(ONE, 13)]
    assert not known.unconfirmed


def test_an_address_that_a_voter_does_not_answer_at_is_asked_for_it_a_few_times() -> None:
    known = book()
    known.voters = lambda: voters(one=12)
    known.learn([at(ONE, 13)])
    for _ in range(CONFIRM_TRIES):
        assert list(known.unconfirmed) == [("h", 13)]
        known.unanswered(("h", 13))
    assert not known.unconfirmed
    assert known.address_of(ONE) == ("h", 12)


def test_the_older_boot_does_not_replace_the_newer_one() -> None:
    known = book()
    known.learn([at(ONE, 13, boot=2), at(ONE, 14, boot=1)])
    known.learn([at(ONE, 15, boot=1)])
    assert known.address_of(ONE) == ("h", 13)


def test_an_unknown_node_has_no_address() -> None:
    assert book().address_of(ONE) is None
    assert book().replicas == (THREE,)


def test_servers_to_begin_with_have_pseudo_ids_of_their_own() -> None:
    known = book(bootstrap=[("vip", 1), ("vip", 2)])
    assert tuple(known.bootstrap) == (-2, -3)
    assert [known.address_of(each) for each in known.bootstrap] == [("vip", 1), ("vip", 2)]
    assert known.replicas == (THREE,)


def test_everyone_is_asked_at_every_address_but_oneself() -> None:
    known = book({ONE: ("h", 10), THREE: ("h", 3)}, bootstrap=[("vip", 1), ("h", 10)])
    known.voters = lambda: voters(one=12, two=2)
    known.learn([at(ONE, 13)])
    assert sorted(known.places()) == [("h", 2), ("h", 10), ("h", 12), ("h", 13), ("vip", 1)]


def test_a_new_address_is_reported_once() -> None:
    known, told = book(), list[Advertisement]()
    known.on_news = told.extend
    known.learn([at(ONE, 13)])
    known.learn([at(ONE, 13), at(TWO, 2)])
    assert told == [at(ONE, 13), at(TWO, 2)]


def test_only_the_last_report_about_a_leader_is_kept() -> None:
    known = book()
    for each in range(100, 100 + HINTS_MAX + 1):
        known.hint(ReplicaId(each), ("h", each))
    assert known.address_of(ReplicaId(100)) is None
    assert known.address_of(ReplicaId(101)) == ("h", 101)


def test_a_later_record_replaces_the_one_before() -> None:
    known = book()
    known.voters = lambda: voters(one=12, two=2)
    known.voters = lambda: voters(one=14)
    assert known.address_of(ONE) == ("h", 14)
    assert known.address_of(TWO) is None
