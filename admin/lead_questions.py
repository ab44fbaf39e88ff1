"""The request for another leader of the quorum, and how its answer is read."""

from typing import Any, Final

from admin.asking import Answer, Question
from admin.channels import Form
from admin.model import LeadTransfer
from admin.voter_questions import STATUS
from quorum.protocol.apis import ApiKey

ELECTION_NOT_NEEDED: Final = 84
_ANYBODY: Final = -1


def transfer_leadership(to: int | None) -> Question:
    """Let `to` lead; None for whoever suits best."""

    def fill(form: Form) -> Any:
        return form.request(
            cluster_id=None, timeout=form.patience, voter_id=_ANYBODY if to is None else to
        )

    return Question(
        api_key=ApiKey.TRANSFER_LEADERSHIP,
        fill=fill,
        failing=failing(to),
        # It leads already: where the answer to an earlier attempt was lost, that did it.
        done_before=ELECTION_NOT_NEEDED,
        look=STATUS,
    )


def failing(to: int | None) -> str:
    """How to begin the sentence that says that it failed."""
    return f"the lead cannot be handed over{'' if to is None else f' to {to}'}"


def read_transfer(answer: Answer) -> LeadTransfer:
    """Who leads now."""
    response = answer.response
    return LeadTransfer(
        leader_id=response.leader_id,
        leader_epoch=response.leader_epoch,
        duration_ms=round(response.duration.total_seconds() * 1_000),
    )
