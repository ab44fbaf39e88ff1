"""How much is left to copy, in words: bytes, rate and time, or that nobody knows. Pure."""

from admin.model import UNKNOWN
from admin.moves import MoveStanding, MovingPartition
from admin.units import show_duration, show_size

NOT_KNOWN = "unknown"


def cells(partition: MovingPartition) -> tuple[str, str, str]:
    """Bytes, rate and time of the step of a partition."""
    return (_size(partition.bytes_left), _rate(partition.bytes_per_s), _time(partition))


def summary(move: MoveStanding) -> str:
    """What is left of a whole move that runs, in a sentence."""
    if move.bytes_left == UNKNOWN:
        return "How much is left to copy is unknown."
    more = f" and what {move.copies_unknown} more partition(s) need" if move.copies_unknown else ""
    left, rate = _size(move.bytes_left), _rate(move.bytes_per_s)
    words = f"To be copied: {left}{more}, now at {rate}; time left: {_time(move)}."
    return f"{words} {_behind(move)}" if move.copies_behind else words


def _behind(move: MoveStanding) -> str:
    """What an operator has to know: it never ends by itself."""
    words = f"{move.copies_behind} partition(s) fall behind: more is written than is copied."
    if not move.throttle_bytes_per_s:
        return words
    command = f"`metaquorum moves throttle {move.id} BYTES_PER_S`"
    return f"{words} Give it more: {command}, or 0 for no limit."


def _size(size_bytes: int) -> str:
    return NOT_KNOWN if size_bytes == UNKNOWN else show_size(size_bytes)


def _rate(bytes_per_s: int) -> str:
    return NOT_KNOWN if bytes_per_s == UNKNOWN else f"{show_size(bytes_per_s)}/s"


def _time(of: MoveStanding | MovingPartition) -> str:
    return NOT_KNOWN if of.time_left_ms == UNKNOWN else show_duration(of.time_left_ms)
