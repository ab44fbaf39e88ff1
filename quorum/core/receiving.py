"""How much of a snapshot a replica has received, and from whom: a value that outlives leaders."""

from dataclasses import dataclass

from quorum.core.vocabulary import LogEnd, ReplicaId


@dataclass(slots=True)
class Receiving:
    """A snapshot on its way. Another leader that has it too can send the rest."""

    id: LogEnd
    position: int = 0
    """In bytes; all before it is stored."""
    source: ReplicaId | None = None
    """Who sent it; None if an earlier process received it."""
    is_mixed: bool = False
    """Whether parts of it may come from more than one replica."""

    @classmethod
    def from_(cls, source: ReplicaId, id_: LogEnd, *, before: "Receiving | None") -> "Receiving":
        """What is to be received of this snapshot, after what has come of one."""
        if before is None or before.id != id_:
            return cls(id_, source=source)
        mixed = before.is_mixed or (before.position > 0 and before.source != source)
        return cls(id_, before.position, source, mixed)
