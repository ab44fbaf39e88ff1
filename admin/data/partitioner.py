"""Which partition a record belongs to when nobody says: Kafka's rule for records with a key."""

from typing import Final

_M: Final = 0x5BD1E995
_SEED: Final = 0x9747B28C
_MASK: Final = 0xFFFFFFFF


def partition_of(key: bytes, partitions: int) -> int:
    """The partition that every Kafka client sends this key to, so that keys stay together."""
    assert partitions > 0
    return (murmur2(key) & 0x7FFFFFFF) % partitions


def murmur2(data: bytes) -> int:
    """MurmurHash 2 of 32 bits with Kafka's seed, without a sign."""
    whole = len(data) & ~3
    hashed = _SEED ^ len(data)
    for position in range(0, whole, 4):
        word = int.from_bytes(data[position : position + 4], "little") * _M & _MASK
        word ^= word >> 24
        hashed = (hashed * _M & _MASK) ^ (word * _M & _MASK)
    if whole < len(data):
        hashed ^= int.from_bytes(data[whole:], "little")
        hashed = hashed * _M & _MASK
    hashed ^= hashed >> 13
    hashed = hashed * _M & _MASK
    return hashed ^ (hashed >> 15)
