"""The requests that change who votes, and how their answers are judged (KIP-595, KIP-853)."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final

from admin.addresses import Address
from admin.client.asking import Question, Verdict, whole
from admin.client.channels import Form
from quorum.core.reconfiguration import NOT_DONE
from quorum.core.vocabulary import NO_DIRECTORY, ReplicaKey
from quorum.protocol.apis import ApiKey

DUPLICATE_VOTER: Final = 126
VOTER_NOT_FOUND: Final = 127

STATUS: Final = "metadata-quorum describe --status"
"""The command that shows who leads and votes."""


def alter_quorum(target: Sequence[ReplicaKey] | None) -> Question:
    """Set the target voters; None cancels the change under way."""

    def fill(form: Form) -> Any:
        voters = None
        if target is not None:
            voters = tuple(form.part("TargetVoter", **_named(each)) for each in target)
        return form.request(cluster_id=None, timeout=form.patience, target_voters=voters)

    failing = "the change of the voters cannot be cancelled"
    if target is not None:
        failing = f"the voters cannot become {', '.join(each.text for each in target)}"
    return Question(
        api_key=ApiKey.ALTER_QUORUM, fill=fill, judge=_judge, failing=failing, look=STATUS
    )


def add_voter(voter: ReplicaKey, listeners: Sequence[tuple[str, Address]]) -> Question:
    """One voter more, where it listens."""

    def fill(form: Form) -> Any:
        return form.request(
            cluster_id=None,
            timeout=form.patience,
            listeners=tuple(
                form.part("Listener", name=name, host=address.host, port=address.port)
                for name, address in listeners
            ),
            **_named(voter),
        )

    return Question(
        api_key=ApiKey.ADD_RAFT_VOTER,
        fill=fill,
        judge=_judge,
        failing=f"controller {voter.id} cannot be added",
        done_before=DUPLICATE_VOTER,
        look=STATUS,
    )


def remove_voter(voter: ReplicaKey) -> Question:
    """One voter less."""

    def fill(form: Form) -> Any:
        return form.request(cluster_id=None, **_named(voter))

    return Question(
        api_key=ApiKey.REMOVE_RAFT_VOTER,
        fill=fill,
        judge=_judge,
        tells_patience=True,
        failing=f"controller {voter.id} cannot be removed",
        done_before=VOTER_NOT_FOUND,
        look=STATUS,
    )


def _judge(response: Any) -> Verdict:
    """The verdict; a leader of ours says of a request that it has given up that it is not done."""
    verdict = whole(response)
    return replace(verdict, is_undone=(verdict.message or "").startswith(NOT_DONE))


def _named(voter: ReplicaKey) -> dict[str, Any]:
    directory_id = None if voter.directory_id == NO_DIRECTORY else voter.directory_id
    return {"voter_id": voter.id, "voter_directory_id": directory_id}
