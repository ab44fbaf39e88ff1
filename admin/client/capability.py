"""A capability as a question to any node: the private request, retried like any other."""

from typing import Any, TypeVar

import msgspec

from admin.capabilities import schema
from admin.capabilities.schema import Request
from admin.client.asking import Question
from admin.client.channels import Form
from admin.faults import Incompatible
from quorum.protocol.apis import ApiKey

A = TypeVar("A")


def question_of(request: Request[A], *, stale: bool = False) -> Question:
    """The private request that carries `request`."""
    body = schema.encode(request)

    def fill(form: Form) -> Any:
        return form.request(timeout=form.patience, name=request.NAME, stale=stale, body=body)

    return Question(
        api_key=ApiKey.CAPABILITY,
        fill=fill,
        failing=request.failing(),
        done_before=request.DONE_BEFORE,
        look=None if request.only_reads() else request.LOOK,
    )


def answer_in(request: Request[A], body: bytes) -> A:
    """The answer to `request`; raises `Incompatible` if it cannot be read."""
    try:
        return schema.decode_answer(type(request), body)
    except msgspec.MsgspecError as error:
        raise Incompatible(f"the answer to {request.NAME} cannot be read: {error}") from None
