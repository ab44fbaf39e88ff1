"""The profiles that a user can name, and the number of seeds by default."""

from typing import Final

SEEDS: Final = 200

PROFILES: Final = {
    "everything": "quorums alone and whole clusters in turn, every fault",
    "quorum": "a quorum alone, every fault",
    "cluster": "controllers, brokers and clients",
    "hostile": "a quorum with a hostile node in every run",
    "hostile-cluster": "a cluster with a hostile node in every run",
    "calm": "a quorum without a fault",
    "network": "a quorum; cuts, losses, delays and duplicates",
    "bytes": "a quorum; damaged bytes on the wire, faulty leaders",
    "crashes": "a quorum; kills, power losses, pauses, restarts",
    "disks": "a quorum; slow, full, failing and damaged disks",
    "clocks": "a quorum; jumps, drift, late timers, pauses",
    "voters": "a quorum; changes of voters and transfers of the lead",
}
"""The profiles by name, as `chaos.simulation.named_profiles` draws them."""
