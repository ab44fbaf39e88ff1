"""What the leader answers to those who want other voters, as pure rules.

Four requests: KIP-595's AlterQuorum names who is to vote in the end, and KIP-853's add one voter,
remove one, or say where one listens now. Here it is decided what becomes of each; the first three
are carried out by `voter_changes`.
"""

from dataclasses import dataclass, replace
from typing import Final, TypeAlias, assert_never

from quorum.core.changing import Situation, Wait, Waiting, candidate, difference, lacking
from quorum.core.limits import VOTERS_MAX
from quorum.core.messages import (
    AddVoterRequest,
    AlterQuorumRequest,
    Error,
    RemoveVoterRequest,
    UpdateVoterRequest,
    VoterRequest,
)
from quorum.core.vocabulary import ReplicaKey, uuid_to_text
from quorum.core.voters import VoterAssignment

NOT_RECORDED = (
    "the log does not say who votes: it was founded by quorum.voters with kraft.version 0; "
    "a cluster founded at metadata.version 21 or later has kraft.version 1, whose voters can "
    "be changed"
)

NOT_DONE: Final = "not done"
"""How it begins what a leader says of a request that it gives up: it does not come back to it."""


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why nothing comes of a request."""

    error: Error
    text: str


@dataclass(frozen=True, slots=True)
class Nothing:
    """All is as the request wants it already."""


Outcome: TypeAlias = VoterAssignment | Wait | Refusal | Nothing
"""What is to be recorded, or waited for, or why nothing is."""


def outcome_of(request: VoterRequest, situation: Situation) -> Outcome:
    """What becomes of `request` when no other change is under way."""
    match request:
        case AlterQuorumRequest(target=target):
            return _alter(target, situation)
        case AddVoterRequest():
            return _under_way(situation) or _add(request, situation)
        case RemoveVoterRequest(voter=key):
            return _under_way(situation) or _remove(key, situation)
        case UpdateVoterRequest():
            return _update(request, situation)
        case _:
            assert_never(request)


def _alter(target: tuple[ReplicaKey, ...] | None, situation: Situation) -> Outcome:
    assignment = situation.assignment
    if target is None:
        if assignment.target is None:
            return Nothing()
        return VoterAssignment(assignment.current)
    wrong = _impossible(target)
    if wrong is not None:
        return Refusal(Error.INVALID_REQUEST, wrong)
    surplus, missing = difference(assignment.current, target)
    if not surplus and not missing:
        return Nothing() if assignment.target is None else VoterAssignment(assignment.current)
    if len(assignment.current) == 1 and all(key.id in assignment.current for key in missing):
        # Nobody could hold the log while the one goes and the other comes.
        (voter,) = assignment.current
        return Refusal(
            Error.INVALID_REQUEST,
            f"{voter.id} is the only voter and would give way to another directory of its own: "
            "name a second voter first",
        )
    wanted = VoterAssignment(assignment.current, target)
    return Nothing() if wanted == assignment else wanted


def _impossible(target: tuple[ReplicaKey, ...]) -> str | None:
    """What is wrong with target voters whoever votes now, or None."""
    if not target:
        return "no voter is named: a quorum has at least one; null cancels"
    if len(target) > VOTERS_MAX:
        return f"{len(target)} voters are named, at most {VOTERS_MAX} can be"
    ids = [each.id for each in target]
    twice = next((each for each in ids if ids.count(each) > 1), None)
    if twice is not None:
        return f"voter {twice} is named twice"
    negative = next((each for each in ids if each < 0), None)
    return None if negative is None else f"{negative} is no id of a voter"


def _under_way(situation: Situation) -> Refusal | None:
    target = situation.assignment.target
    if target is None:
        return None
    return Refusal(
        Error.INVALID_REQUEST,
        f"a change to voters {', '.join(str(each.id) for each in target)} is under way: wait for "
        "its end, cancel it, or name other target voters",
    )


def _add(request: AddVoterRequest, situation: Situation) -> Outcome:
    current, voter = situation.assignment.current, request.voter
    known = current.get(voter.id)
    if known is not None:
        return Refusal(
            Error.DUPLICATE_VOTER,
            f"voter {voter.id} is one already, with directory "
            f"{uuid_to_text(known.key.directory_id)}: remove it first if another directory is to "
            "take its place",
        )
    found = candidate(situation, voter)
    if isinstance(found, Waiting):
        return Wait(found, (voter.id,))
    return _if_a_majority_fetches(situation, VoterAssignment(current.with_(found)))


def _remove(key: ReplicaKey, situation: Situation) -> Outcome:
    current = situation.assignment.current
    voter = current.get(key.id)
    if voter is None or not voter.is_(key):
        return Refusal(Error.VOTER_NOT_FOUND, f"{key.text} is no voter; voters are {current.text}")
    if len(current) == 1:
        return Refusal(Error.INVALID_REQUEST, f"{key.id} is the only voter: add another one first")
    return _if_a_majority_fetches(situation, VoterAssignment(current.without(key.id)))


def _update(request: UpdateVoterRequest, situation: Situation) -> Outcome:
    assignment, voter = situation.assignment, request.voter
    known = assignment.current.get(voter.id)
    if known is None or not known.is_(voter.key):
        return Refusal(
            Error.VOTER_NOT_FOUND,
            f"{voter.key.text} is no voter; voters are {assignment.current.text}",
        )
    if not voter.endpoints:
        return Refusal(Error.INVALID_REQUEST, f"{voter.key.text} names no listener")
    if known == voter:
        return Nothing()
    return replace(assignment, current=assignment.current.with_(voter))


def _if_a_majority_fetches(situation: Situation, assignment: VoterAssignment) -> Outcome:
    return lacking(situation, assignment.current) or assignment
