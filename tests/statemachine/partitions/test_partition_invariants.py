"""The invariants of a partition: one check names every violation."""

from collections.abc import Callable
from typing import Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from statemachine.partitions.invariants import check_invariants
from statemachine.partitions.registration import PartitionRegistration, Stage
from statemachine.vocabulary import NO_LEADER
from tests.statemachine.support.world import directory
from tests.support import tree

BROKERS: Final = st.lists(st.integers(1, 9), min_size=4, max_size=6, unique=True).map(tuple)
STRANGER: Final = 99
MIN_ISR: Final = 2


@pytest.mark.parametrize("call", ["= check_invariants(", ".put_partition("])
def test_only_the_change_builder_records_and_checks_partitions(call: str) -> None:
    callers = [
        tree.shown(path)
        for path in tree.python_files("statemachine")
        if call in path.read_text(encoding="utf-8")
    ]
    assert callers == ["statemachine/partitions/change_builder.py"]


@st.composite
def led(draw: st.DrawFn) -> PartitionRegistration:
    """Nothing is under way; one is in sync, another one is eligible."""
    replicas = draw(BROKERS)
    return PartitionRegistration(
        replicas=replicas,
        isr=replicas[:1],
        elr=replicas[1:2],
        leader=replicas[0],
        leader_epoch=draw(st.integers(0, 9)),
        partition_epoch=draw(st.integers(0, 9)),
        directories=tuple(map(directory, replicas)),
    )


@st.composite
def moving(draw: st.DrawFn) -> PartitionRegistration:
    """A step is under way: the last replica is added, the first one is removed."""
    partition = draw(led())
    first, *others, last = partition.replicas
    return replace(
        partition,
        adding=(last,),
        removing=(first,),
        target=(*others, last),
        original=partition.replicas[:-1],
        stage=Stage(move=1, step=1),
    )


ANY: Final = st.one_of(led(), moving())


def change(partition: PartitionRegistration, **fields: Any) -> PartitionRegistration:
    """The partition after a valid change."""
    epoch = partition.partition_epoch + 1
    return replace(partition, **{"partition_epoch": epoch, **fields})


@given(ANY)
def test_a_valid_partition_breaks_no_invariant(partition: PartitionRegistration) -> None:
    assert check_invariants(partition, min_isr=MIN_ISR) is None
    grown = change(partition, isr=partition.replicas[:2], elr=())
    assert check_invariants(grown, min_isr=MIN_ISR, before=partition) is None
    lead = (partition.leader_epoch + 1, NO_LEADER)
    left = change(partition, isr=(), leader_epoch=lead[0], leader=lead[1])
    assert check_invariants(left, min_isr=MIN_ISR, before=partition) is None
    known = replace(left, last_known_elr=partition.replicas[:1])
    assert check_invariants(known, min_isr=MIN_ISR, before=partition) is None


Break = Callable[[PartitionRegistration], PartitionRegistration]

ROLES: Final[dict[str, tuple[str, Break]]] = {
    "no replicas": ("empty or repeated", lambda p: replace(p, replicas=())),
    "a replica twice": (
        "empty or repeated",
        lambda p: replace(p, replicas=(*p.replicas, p.replicas[1])),
    ),
    "a stranger in sync": ("ISR", lambda p: replace(p, isr=(*p.isr, STRANGER))),
    "in sync twice": ("ISR", lambda p: replace(p, isr=p.isr * 2)),
    "who leads is not in sync": ("leader", lambda p: replace(p, leader=p.replicas[2])),
    "a stranger is eligible": ("ELR", lambda p: replace(p, elr=(STRANGER,))),
    "eligible twice": ("ELR", lambda p: replace(p, elr=p.elr * 2)),
    "eligible and in sync": ("overlaps", lambda p: replace(p, elr=p.isr)),
    "eligible, and enough are in sync": (
        "min ISR 2",
        lambda p: replace(p, isr=(p.isr[0], p.replicas[2])),
    ),
    "somebody leads and is known to have led last": (
        "last known",
        lambda p: replace(p, last_known_elr=p.elr),
    ),
    "a stranger has led last": (
        "last known",
        lambda p: replace(p, leader=NO_LEADER, last_known_elr=(STRANGER,)),
    ),
    "whoever led last is in sync": (
        "last known",
        lambda p: replace(p, leader=NO_LEADER, last_known_elr=p.isr),
    ),
    "directories of others": ("directories", lambda p: replace(p, directories=p.directories[:1])),
}

MOVES: Final[dict[str, tuple[str, Break]]] = {
    "a stranger is added": ("adding", lambda p: replace(p, adding=(STRANGER,))),
    "a stranger is removed": ("removing", lambda p: replace(p, removing=(STRANGER,))),
    "added and removed": ("overlap", lambda p: replace(p, removing=p.adding)),
    "added twice": ("overlap", lambda p: replace(p, adding=p.adding * 2)),
    "a target twice": ("repeated", lambda p: replace(p, target=p.target * 2)),
    "added for nothing": ("target", lambda p: replace(p, target=p.target[:-1])),
    "removed and wanted": ("target", lambda p: replace(p, target=(*p.target, *p.removing))),
    "original of no move": (
        "of no move",
        lambda p: replace(p, adding=(), removing=(), target=(), stage=Stage()),
    ),
    "a move without a target": ("without a target", lambda p: replace(p, target=(), original=())),
}

EPOCHS: Final[dict[str, tuple[str, Break]]] = {
    "partition epoch as before": ("partition epoch", lambda p: replace(p, isr=p.replicas[:1])),
    "partition epoch of two changes": (
        "partition epoch",
        lambda p: replace(p, partition_epoch=p.partition_epoch + 2),
    ),
    "another leader in the same epoch": (
        "leader epoch",
        lambda p: change(p, leader=NO_LEADER),
    ),
    "leader epochs are passed over": (
        "leader epoch",
        lambda p: change(p, leader=NO_LEADER, leader_epoch=p.leader_epoch + 2),
    ),
    "leader epoch falls": ("leader epoch", lambda p: change(p, leader_epoch=p.leader_epoch - 1)),
}


@pytest.mark.parametrize("what", ROLES)
@given(partition=ANY)
def test_a_replica_in_two_exclusive_roles_is_named(
    what: str, partition: PartitionRegistration
) -> None:
    named, broken = ROLES[what]
    assert named in (check_invariants(broken(partition), min_isr=MIN_ISR) or "")


@pytest.mark.parametrize("what", MOVES)
@given(partition=moving())
def test_an_impossible_step_is_named(what: str, partition: PartitionRegistration) -> None:
    named, broken = MOVES[what]
    assert named in (check_invariants(broken(partition), min_isr=MIN_ISR) or "")


@pytest.mark.parametrize("what", EPOCHS)
@given(partition=ANY)
def test_wrong_epochs_are_named(what: str, partition: PartitionRegistration) -> None:
    named, broken = EPOCHS[what]
    assert named in (check_invariants(broken(partition), min_isr=MIN_ISR, before=partition) or "")


@given(partition=led())
def test_catching_up_leaves_the_leader_epoch_alone(partition: PartitionRegistration) -> None:
    isr = partition.replicas[:2]
    caught_up = change(partition, isr=isr, elr=(), leader_epoch=partition.leader_epoch + 1)
    assert "leader epoch" in (check_invariants(caught_up, min_isr=MIN_ISR, before=partition) or "")


@given(partition=moving())
def test_the_end_of_a_move_begins_a_leader_epoch(partition: PartitionRegistration) -> None:
    nothing = {"adding": (), "removing": (), "target": (), "original": (), "stage": Stage()}
    over = change(partition, **nothing)
    assert "leader epoch" in (check_invariants(over, min_isr=MIN_ISR, before=partition) or "")
    right = replace(over, leader_epoch=partition.leader_epoch + 1)
    assert check_invariants(right, min_isr=MIN_ISR, before=partition) is None


@given(partition=led())
def test_growth_leaves_the_leader_epoch_alone(partition: PartitionRegistration) -> None:
    right = change(
        partition,
        replicas=(*partition.replicas, STRANGER),
        adding=(STRANGER,),
        target=(*partition.replicas, STRANGER),
        original=partition.replicas,
        stage=Stage(move=1, step=1),
        directories=(*partition.directories, directory(STRANGER)),
    )
    assert check_invariants(right, min_isr=MIN_ISR, before=partition) is None
    grown = replace(right, leader_epoch=partition.leader_epoch + 1)
    assert "leader epoch" in (check_invariants(grown, min_isr=MIN_ISR, before=partition) or "")


@given(partition=led())
def test_a_step_that_completes_at_once_begins_a_leader_epoch(
    partition: PartitionRegistration,
) -> None:
    reordered = change(partition, replicas=partition.replicas[::-1])
    assert "leader epoch" in (check_invariants(reordered, min_isr=MIN_ISR, before=partition) or "")
    right = replace(reordered, leader_epoch=partition.leader_epoch + 1)
    assert check_invariants(right, min_isr=MIN_ISR, before=partition) is None


@given(partition=moving())
def test_the_end_of_a_step_begins_a_leader_epoch_with_others_to_come(
    partition: PartitionRegistration,
) -> None:
    _, second, *others = partition.replicas
    before = replace(
        partition, isr=(second,), leader=second, elr=(), target=(*partition.target, STRANGER)
    )
    left = {"replicas": (second, *others), "directories": partition.directories[1:]}
    over = change(before, adding=(), removing=(), **left)
    assert "leader epoch" in (check_invariants(over, min_isr=MIN_ISR, before=before) or "")
    right = replace(over, leader_epoch=before.leader_epoch + 1)
    assert check_invariants(right, min_isr=MIN_ISR, before=before) is None


@given(partition=moving())
def test_a_new_target_that_leaves_nothing_under_way_is_no_end_of_a_step(
    partition: PartitionRegistration,
) -> None:
    waits = change(partition, adding=(), removing=(), target=(*partition.replicas[:-1], STRANGER))
    assert check_invariants(waits, min_isr=MIN_ISR, before=partition) is None


@given(partition=moving())
def test_whenever_a_replica_goes_a_leader_epoch_begins(partition: PartitionRegistration) -> None:
    kept = {"replicas": partition.replicas[:-1], "directories": partition.directories[:-1]}
    target = (*partition.replicas[:-1], STRANGER)
    waits = change(partition, adding=(), removing=(), target=target, **kept)
    assert "leader epoch" in (check_invariants(waits, min_isr=MIN_ISR, before=partition) or "")
    right = replace(waits, leader_epoch=partition.leader_epoch + 1)
    assert check_invariants(right, min_isr=MIN_ISR, before=partition) is None
