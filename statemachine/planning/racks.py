"""How many replicas of a partition each rack gets: as evenly as the racks allow.

No rack gets one more before every other rack that could take it has as many (KIP-36). Numbers
only; which brokers they are is somebody else's choice.
"""

from collections.abc import Mapping, Sequence

from statemachine.vocabulary import BrokerId

Racks = Mapping[BrokerId, str | None]
"""The brokers and the rack of each; None where it has named none."""


def bounds(
    kept: Sequence[int], room: Sequence[int], count: int
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The least and the most that each rack gets of `count` more, by rack.

    `kept` are the replicas that stay in each rack, `room` the brokers that could have one more.
    There is room for all of them.
    """
    assert count <= sum(room), f"{count} more do not fit into {room}"
    level = 0
    while sum(_up_to(level, kept, room)) < count:
        level += 1
    return _up_to(level - 1, kept, room), _up_to(level, kept, room)


def _up_to(level: int, kept: Sequence[int], room: Sequence[int]) -> tuple[int, ...]:
    """What brings each rack up to this level, as far as it has room."""
    return tuple([min(max(0, level - has), free) for has, free in zip(kept, room, strict=True)])


def rack_names(racks: Racks) -> dict[BrokerId, str]:
    """The rack of each broker; one name for all of them unless each has named its own.

    What is not known of some can be kept for none.
    """
    if any(rack is None for rack in racks.values()):
        return dict.fromkeys(racks, "")
    return {broker: rack for broker, rack in racks.items() if rack is not None}
