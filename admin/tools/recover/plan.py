"""Plan a new set of voters from the folders that are left. Nothing is written here.

The log that ends furthest, in Raft's order of epoch, then offset, holds the most of what was
committed: every controller gets it. The new epoch lies so far above all that were seen that the
lost voters can hardly have been in a higher one. If there are not enough epochs for that, the
numbers begin again: the state becomes a snapshot of epoch 1, and whoever has seen a higher epoch,
which are all brokers, must forget it.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from admin.tools.founding import LOST_EPOCHS_MAX
from admin.tools.recover.survivors import RecoverError, Survivor
from quorum.core.limits import EPOCH_MAX
from quorum.core.vocabulary import Epoch, ReplicaId
from quorum.core.voter_set import Endpoint, Voter
from quorum.persistent_state import LISTENER_NAME
from quorum.transport.address import Address

SNAPSHOT_EPOCH = Epoch(1)
"""The epoch of the snapshot with which the numbers begin again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """The log that is kept, and the controllers that go on with it."""

    cluster_id: str
    best: Survivor
    """The folder whose log is kept."""
    survivors: Sequence[Survivor]
    """The new voters, by rising id."""
    endpoints: Mapping[ReplicaId, tuple[Endpoint, ...]]
    """Their listeners."""
    voters_before: Collection[ReplicaId]
    """The voters at the end of the log; empty if it names none."""
    epoch: Epoch
    """The epoch that the new voters begin with."""
    begins_epochs_again: bool
    """True if the log is replaced by a snapshot of a low epoch."""
    is_seen_epoch_higher: bool
    """True if nodes may have seen a higher epoch than the new one."""

    @property
    def places_before(self) -> list[Address]:
        """The addresses of the voters at the end of the log, as far as it has them."""
        found = _recorded(self.best).values()
        return [Address(of.host, of.port) for each in found for of in each.endpoints]

    @property
    def without_address(self) -> list[ReplicaId]:
        """The voters at the end of the log of which it has no address, as with kraft.version 0."""
        recorded = _recorded(self.best)
        return sorted(
            each
            for each in self.voters_before
            if each not in recorded or not recorded[each].endpoints
        )

    @property
    def newcomers(self) -> list[ReplicaId]:
        """The new voters that were none at the end of the log, if it names any."""
        return sorted(self.endpoints.keys() - set(self.voters_before)) if self.voters_before else []

    @property
    def lost(self) -> list[ReplicaId]:
        """The voters whose folders are not among those that are left."""
        left = {each.node_id for each in self.survivors}
        return sorted(each for each in self.voters_before if each not in left)


def make_plan(
    survivors: Sequence[Survivor],
    given: Mapping[ReplicaId, Address] | None,
    cluster_id: str | None,
) -> Plan:
    """Make the plan for these folders; raises `RecoverError`.

    `given` are new addresses of the nodes, `cluster_id` that of folders that have lost it.
    """
    by_id = sorted(survivors, key=lambda each: each.node_id)
    _check_ids(by_id)
    cluster = _cluster_id(by_id, cluster_id)
    best = max(by_id, key=lambda each: (each.log_end, -each.log_start, -each.node_id))
    if best.log_end.offset == 0:
        raise RecoverError(
            "no folder holds a record: there is nothing to recover. Restore a backup with "
            "`metaquorum restore`"
        )
    recorded = _recorded(best)
    before = recorded.keys() or set(best.summary.voter_ids)
    highest = max(each.epoch for each in by_id)
    is_used_up = highest + LOST_EPOCHS_MAX > EPOCH_MAX
    if not is_used_up:
        _check_no_majority(by_id, recorded, before)
    in_logs = max(each.log_end.epoch for each in by_id)
    begins_again = is_used_up and in_logs + LOST_EPOCHS_MAX > EPOCH_MAX // 2
    epoch = (in_logs if is_used_up else highest) + LOST_EPOCHS_MAX
    return Plan(
        cluster_id=cluster,
        best=best,
        survivors=by_id,
        endpoints=_endpoints(by_id, recorded, given),
        voters_before=before,
        epoch=Epoch(SNAPSHOT_EPOCH + 1 if begins_again else epoch),
        begins_epochs_again=begins_again,
        is_seen_epoch_higher=is_used_up,
    )


def _recorded(best: Survivor) -> Mapping[ReplicaId, Voter]:
    voters = best.summary.voters
    return {} if voters is None else {each.id: each for each in voters.current}


def _check_ids(survivors: Sequence[Survivor]) -> None:
    for one, other in pairwise(survivors):
        if one.node_id == other.node_id:
            raise RecoverError(
                f"{one.folder} and {other.folder} are both of node {one.node_id}: give the one "
                "that it used last"
            )


def _cluster_id(survivors: Sequence[Survivor], given: str | None) -> str:
    found = {each.cluster_id: each.folder for each in survivors if each.cluster_id is not None}
    if len(found) > 1:
        raise RecoverError(
            "the folders are of different clusters: "
            + "; ".join(f"{folder} is of {id_}" for id_, folder in found.items())
        )
    id_ = next(iter(found), given)
    if id_ is None:
        raise RecoverError(
            "no folder names its cluster: give --cluster-id, as meta.properties of a broker has it"
        )
    if given not in (None, id_):
        raise RecoverError(f"the folders are of cluster {id_}, not {given}: omit --cluster-id")
    return id_


def _check_no_majority(
    survivors: Sequence[Survivor],
    recorded: Mapping[ReplicaId, Voter],
    voters: Collection[ReplicaId],
) -> None:
    """Raise if the folders are sound and those of a majority: then nothing need be lost."""

    def is_voter(each: Survivor) -> bool:
        voter = recorded.get(each.node_id)
        if voter is None or not voter.directory_id_is_known or each.meta is None:
            return each.node_id in voters
        return voter.key.directory_id == each.meta.directory_id

    sound = [each for each in survivors if each.is_sound and is_voter(each)]
    if 2 * len(sound) > len(voters) > 0:
        raise RecoverError(
            f"the folders of {_listed([each.node_id for each in sound])} are sound, and a majority "
            f"of the voters {_listed(voters)}: start these nodes, and nothing is lost; then "
            "replace the others with `metadata-quorum alter --voters`"
        )


def _endpoints(
    survivors: Sequence[Survivor],
    recorded: Mapping[ReplicaId, Voter],
    given: Mapping[ReplicaId, Address] | None,
) -> Mapping[ReplicaId, tuple[Endpoint, ...]]:
    ids = {each.node_id for each in survivors}
    if given is not None:
        if given.keys() != ids:
            raise RecoverError(
                f"--voters names {_listed(given)}, but the folders are those of {_listed(ids)}: "
                "name these, with the addresses that they are to have"
            )
        return {
            id_: (Endpoint(LISTENER_NAME, address.host, address.port),)
            for id_, address in given.items()
        }
    found = {id_: recorded[id_].endpoints for id_ in ids if id_ in recorded}
    unknown = [id_ for id_ in ids if not found.get(id_)]
    if unknown:
        raise RecoverError(
            f"the log has no address of {_listed(unknown)}: give --voters, as 1@host:port"
        )
    return found


def _listed(ids: Collection[ReplicaId]) -> str:
    return ", ".join(map(str, sorted(ids)))
