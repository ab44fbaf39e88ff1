"""The table of features: Kafka 4.2's enums, and the levels of a new cluster."""

import pytest

from statemachine import commands
from statemachine.decide import decide
from statemachine.errors import Error
from statemachine.features.features import (
    ELR_VERSION,
    FEATURES,
    RANGES,
    RELEASES,
    default_levels,
    elr_in_force,
    level_of_release,
    range_refusal,
    release_name,
)
from statemachine.image.image import Image
from statemachine.records import kafka_records

# Printed from `Feature.defaultLevel` of Kafka 4.2.0: the first level of metadata.version with it.
SINCE = {
    "eligible.leader.replicas.version": {1: 26},
    "group.version": {1: 22},
    "share.version": {1: 28},
    "streams.version": {1: 29},
    "transaction.version": {2: 24},
}


@pytest.mark.parametrize("metadata_version", range(15, 31))
def test_a_level_brings_the_features_that_kafkas_format_tool_gives_it(
    metadata_version: int,
) -> None:
    """KIP-1022."""
    for name, level in default_levels(metadata_version).items():
        ((highest, since),) = SINCE[name].items()
        assert level == (highest if metadata_version >= since else 0), name


def test_every_range_is_that_of_kafka_but_for_the_levels_before_3_7() -> None:
    found = {each.name: (each.min_supported, each.max_supported) for each in RANGES}
    assert found == {
        "metadata.version": (15, 30),
        "eligible.leader.replicas.version": (0, 1),
        "group.version": (0, 1),
        "kraft.version": (0, 1),
        "share.version": (0, 1),
        "streams.version": (0, 1),
        "transaction.version": (0, 2),
    }
    assert set(found) == set(FEATURES)


@pytest.mark.parametrize(
    ("text", "level"),
    [
        ("15", 15),
        ("29", 29),
        ("3.7", 19),
        ("3.7-IV0", 15),
        ("3.9", 21),
        ("3.9.1", 21),
        ("3.9-IV0", 21),
        ("4.0", 25),
        ("4.1", 27),
        ("4.2", 29),
        ("4.2.0", 29),
        ("4.3.1", 30),
        ("4.2-IV0", 28),
    ],
)
def test_a_level_is_written_as_a_number_or_as_a_release(text: str, level: int) -> None:
    assert level_of_release(text) == level


@pytest.mark.parametrize(
    "text",
    ["", "14", "31", "3.6", "3.6-IV2", "4.4", "3", "3.9-IV1", "3.9.1-IV0", "x", "-15", "1_5", "٢١"],
)
def test_an_invalid_level_is_refused_with_the_valid_ones(text: str) -> None:
    with pytest.raises(ValueError, match=r"15 to 30, or a release from 3\.7-IV0 to 4\.3-IV0"):
        level_of_release(text)


def test_every_level_is_found_by_its_name() -> None:
    assert {level_of_release(name) for name in RELEASES.values()} == set(range(15, 31))
    assert release_name(21) == "3.9-IV0"
    assert release_name(99) == "99"


def test_a_level_that_a_node_does_not_support_is_refused_in_kafkas_words() -> None:
    assert range_refusal("Broker 1", 1, 21, 21) is None
    assert range_refusal("Broker 1", 0, 0, 1) == "Broker 1 does not support this feature."
    assert range_refusal("Broker 1", 1, 21, 29) == "Broker 1 only supports versions 1-21"
    assert range_refusal("Broker 1", 2, 2, 1) == "Broker 1 only supports versions 2"


def test_the_elr_needs_its_feature_and_records_that_can_carry_it() -> None:
    assert elr_in_force({"metadata.version": 23, ELR_VERSION: 1})
    assert not elr_in_force({"metadata.version": 22, ELR_VERSION: 1})
    assert not elr_in_force({"metadata.version": 29})


# --- founding ----------------------------------------------------------------------------------


def founded(metadata_version: int, **fields: object) -> commands.Decision:
    """The decision about the first command of a cluster."""
    command = commands.FoundCluster(metadata_version=metadata_version, **fields)  # type: ignore[arg-type]
    return decide(Image(), command)


def test_the_founding_at_29_is_what_kafka_4_2_writes() -> None:
    """The records of a log that Kafka's own controllers began, in order."""
    assert founded(29).records == (
        kafka_records.BeginTransaction(name="Bootstrap records"),
        kafka_records.FeatureLevel(name="metadata.version", level=29),
        kafka_records.FeatureLevel(name="eligible.leader.replicas.version", level=1),
        kafka_records.FeatureLevel(name="group.version", level=1),
        kafka_records.FeatureLevel(name="share.version", level=1),
        kafka_records.FeatureLevel(name="streams.version", level=1),
        kafka_records.FeatureLevel(name="transaction.version", level=2),
        kafka_records.Config(
            resource_type=4, resource_name="", name="min.insync.replicas", value="1"
        ),
        kafka_records.EndTransaction(),
    )


def test_the_min_isr_of_the_cluster_comes_with_the_elr_and_only_with_it() -> None:
    """KIP-966: the controller counts with it, so it must be in the log."""
    config = kafka_records.Config(
        resource_type=4, resource_name="", name="min.insync.replicas", value="2"
    )
    assert config in founded(26, default_min_isr=2).records
    assert not any(isinstance(each, kafka_records.Config) for each in founded(25).records)
    without = founded(29, default_min_isr=2, features=((ELR_VERSION, 0),))
    assert not any(isinstance(each, kafka_records.Config) for each in without.records)


@pytest.mark.parametrize(
    ("metadata_version", "feature", "said"),
    [
        (29, ("group.version", 2), "group.version 2 is not supported, 0 to 1 are"),
        (29, ("group.version", -1), "0 to 1 are"),
        (29, ("metadata.version", 21), "metadata.version cannot be set at the founding"),
        (29, ("kraft.version", 1), "kraft.version cannot be set at the founding"),
        (29, ("new.version", 1), "new.version cannot be set at the founding"),
        (21, (ELR_VERSION, 1), "depends on metadata.version level 23"),
    ],
)
def test_features_that_cannot_be_together_do_not_found_a_cluster(
    metadata_version: int, feature: tuple[str, int], said: str
) -> None:
    decision = founded(metadata_version, features=(feature,))
    assert isinstance(decision.answer, commands.Done)
    assert decision.answer.error is Error.UNSUPPORTED_VERSION
    assert said in decision.answer.message
    assert decision.records == ()
