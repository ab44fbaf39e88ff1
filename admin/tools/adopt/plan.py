"""Plan the new controllers from the folders of a stopped controller set. Nothing is written here.

The plan takes over the log that ends furthest, in Raft's order of epoch, then offset. The folders
must be those of a majority of the voters; then this log holds every committed record (Raft §5.4.1),
since it would win an election among them. Every controller gets a copy of it, as if it had followed
the winner up to its end, so that none has to fetch from another. Each keeps its own vote, in the
epoch of the log or a later one.

A log that names its voters names their addresses too, and Kafka's brokers use these. If the voters
are to listen elsewhere, the log must say so, and the plan holds an election in advance: in a new
epoch all controllers vote for one of them, and every log gets the LeaderChange and Voters records
that open the epoch.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

from admin.tools.adopt.source import AdoptError, History, Source, read_history, refusals
from admin.tools.founding import NewEpoch
from quorum.core.vocabulary import ElectionState, Epoch, ReplicaId, ReplicaKey, uuid_to_text
from quorum.core.voter_set import Endpoint, Voter, VoterSet
from quorum.persistent_state import LISTENER_NAME
from quorum.transport.address import Address


@dataclass(frozen=True, slots=True, kw_only=True)
class NewController:
    """A controller that replaces one of Kafka's, with its id and its vote."""

    source: Source
    address: Address
    election: ElectionState

    @property
    def node_id(self) -> int:
        """The id, which stays."""
        return self.source.node_id


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """The log that is taken over, and the new controllers."""

    cluster_id: str
    best: Source
    """The folder whose log is taken over."""
    history: History
    voters: Mapping[ReplicaId, Address]
    """The voters with their addresses from now on."""
    recorded: Mapping[ReplicaId, Voter]
    """The voters of the log; empty if it names none."""
    new_epoch: NewEpoch | None
    """None if the addresses of the log stay, or it has none."""
    new_controllers: Sequence[NewController]
    left_out: Sequence[Source]
    """Folders of former voters."""


def make_plan(sources: Sequence[Source], given: Mapping[ReplicaId, Address] | None) -> Plan:
    """Make the plan for these folders; `given` are the addresses of the voters, or the voters.

    Raises `AdoptError` if nothing guarantees the committed records, or the log has unsupported
    contents.
    """
    cluster_id = _one_cluster(sources)
    _check_ids(sources)
    best = max(sources, key=lambda each: (each.log_end, -each.log_start, -each.node_id))
    if best.log_end.offset == 0:
        raise AdoptError(
            "no folder holds a record: there is nothing to take over. Start controllers in the "
            "folders as they are: they begin with what these were formatted for"
        )
    history = read_history(best.log_folder, best.checkpoint)
    recorded = {} if history.voters is None else {v.id: v for v in history.voters.current}
    voters = _voters(recorded, given)
    _check_directories(sources, recorded)
    _check_majority(sources, voters.keys())
    refused = refusals(history)
    if history.image.level == 0:
        refused.append("no metadata.version is in force: the cluster was never founded")
    if refused:
        raise AdoptError("\n".join(f"not supported: {each}" for each in refused))
    by_id = sorted(sources, key=lambda each: each.node_id)
    voting = [each for each in by_id if each.meta.node_id in voters]
    new_epoch = _new_epoch(voting, recorded, voters)
    return Plan(
        cluster_id=cluster_id,
        best=best,
        history=history,
        voters=voters,
        recorded=recorded,
        new_epoch=new_epoch,
        new_controllers=tuple(
            NewController(
                source=source,
                address=voters[source.meta.node_id],
                election=_election(source.election, best, new_epoch),
            )
            for source in voting
        ),
        left_out=tuple(each for each in by_id if each.meta.node_id not in voters),
    )


def _election(election: ElectionState, best: Source, new_epoch: NewEpoch | None) -> ElectionState:
    """The election state of a controller with this log: its own vote, or that of a later epoch.

    In an epoch that it has not seen, it has not voted.
    """
    if new_epoch is not None:
        return new_epoch.election
    if election.epoch >= best.log_end.epoch:
        return election
    return ElectionState(best.log_end.epoch)


def _new_epoch(
    voting: Sequence[Source],
    recorded: Mapping[ReplicaId, Voter],
    voters: Mapping[ReplicaId, Address],
) -> NewEpoch | None:
    moved = VoterSet(tuple(_at(voter, voters[id_]) for id_, voter in recorded.items()))
    if all(voter == recorded[voter.id] for voter in moved):
        return None
    first = voting[0].meta
    # An epoch that no voter has seen has no leader yet.
    heard = max(max(each.election.epoch, each.log_end.epoch) for each in voting)
    return NewEpoch(
        epoch=Epoch(heard + 1),
        leader=ReplicaKey(first.node_id, first.directory_id),
        voters=moved,
    )


def _at(voter: Voter, address: Address) -> Voter:
    """Return the voter with this address alone, or unchanged if it has it already."""
    if any((each.host, each.port) == tuple(address) for each in voter.endpoints):
        return voter
    name = voter.endpoints[0].name if voter.endpoints else LISTENER_NAME
    return replace(voter, endpoints=(Endpoint(name=name, host=address.host, port=address.port),))


def _one_cluster(sources: Sequence[Source]) -> str:
    first, *others = sources
    for other in others:
        if other.meta.cluster_id != first.meta.cluster_id:
            raise AdoptError(
                f"{first.folder} is of cluster {first.meta.cluster_id}, {other.folder} of cluster "
                f"{other.meta.cluster_id}: give the folders of one cluster"
            )
    assert first.meta.cluster_id is not None, "it was checked when the folder was read"
    return first.meta.cluster_id


def _check_ids(sources: Sequence[Source]) -> None:
    seen: dict[int, Source] = {}
    for source in sources:
        other = seen.setdefault(source.node_id, source)
        if other is not source:
            raise AdoptError(
                f"{other.folder} and {source.folder} are both of node {source.node_id}: give one "
                "folder of each controller, the one that it used last"
            )


def _voters(
    recorded: Mapping[ReplicaId, Voter], given: Mapping[ReplicaId, Address] | None
) -> Mapping[ReplicaId, Address]:
    if not recorded:
        if given is None:
            raise AdoptError(
                "the log names no voters: give --voters, as in the old controller.quorum.voters"
            )
        return given
    if given is not None:
        if given.keys() != recorded.keys():
            raise AdoptError(
                f"--voters names {_listed(given)}, but by the log {_listed(recorded)} vote: "
                "name the same ids, with the addresses that they are to have"
            )
        return given
    return {id_: _address(voter) for id_, voter in recorded.items()}


def _address(voter: Voter) -> Address:
    if not voter.endpoints:
        raise AdoptError(f"the log names no address of voter {voter.id}: give --voters")
    first = voter.endpoints[0]
    return Address(first.host, first.port)


def _check_directories(sources: Sequence[Source], recorded: Mapping[ReplicaId, Voter]) -> None:
    for source in sources:
        voter = recorded.get(source.meta.node_id)
        if voter is None or not voter.directory_id_is_known:
            continue
        if voter.key.directory_id != source.meta.directory_id:
            raise AdoptError(
                f"{source.folder} is directory {uuid_to_text(source.meta.directory_id)}, but voter "
                f"{voter.id} is the one with directory {uuid_to_text(voter.key.directory_id)}: it "
                "has lost its disk and voted with another; leave the folder out"
            )


def _check_majority(sources: Sequence[Source], voters: Collection[ReplicaId]) -> None:
    """Raise unless these folders are those of a majority.

    Replaced voters do not matter, even if nobody knows whether the change was committed: voters
    change one at a time, so that majorities of the old and the new voters overlap (KIP-853).
    """
    present = {source.meta.node_id for source in sources}
    there = [each for each in voters if each in present]
    if 2 * len(there) <= len(voters):
        missing = [each for each in voters if each not in present]
        raise AdoptError(
            f"the folders given are those of voters {_listed(there) or 'none'} out of "
            f"{_listed(voters)}: no majority, and so nothing guarantees that they hold every "
            f"committed record; add folders of {_listed(missing)}"
        )


def _listed(ids: Collection[ReplicaId]) -> str:
    return ", ".join(map(str, sorted(ids)))
