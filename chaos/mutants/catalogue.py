"""All mutants, by name. Seeds catch those of `MUTANTS`; only directed tests catch `UNSEEN`."""

from typing import Final

from chaos.mutants.bounds import BOUNDS
from chaos.mutants.clusters import CLUSTERS
from chaos.mutants.directed_only import UNSEEN
from chaos.mutants.elections import ELECTIONS
from chaos.mutants.gossip import GOSSIP
from chaos.mutants.hostility import HOSTILITY
from chaos.mutants.logs import LOGS
from chaos.mutants.mutant import Mutant
from chaos.mutants.partitions import PARTITIONS
from chaos.mutants.reads import READS
from chaos.mutants.snapshots import SNAPSHOTS
from chaos.mutants.storage import STORAGE
from chaos.mutants.voters import VOTERS
from chaos.mutants.wire import WIRE

MUTANTS: Final[tuple[Mutant, ...]] = (
    *ELECTIONS,
    *LOGS,
    *VOTERS,
    *GOSSIP,
    *STORAGE,
    *SNAPSHOTS,
    *READS,
    *BOUNDS,
    *WIRE,
    *HOSTILITY,
    *CLUSTERS,
    *PARTITIONS,
)


def named(name: str) -> Mutant:
    """Return the mutant with this name, from either list; raises `KeyError`."""
    return {each.name: each for each in (*MUTANTS, *UNSEEN)}[name]
