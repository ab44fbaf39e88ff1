"""What one plan lets begin, or cancel, piece by piece; with a key each piece is done once.

The last piece has the key of the request: whoever finds it remembered finds all of it done. The
pieces before it have keys that are made from that one, so that whoever takes an interrupted request
up goes on behind them. A piece is one decision together with what is remembered of it, so no
fail-over can part them (`statemachine.retries`).
"""

from collections.abc import Sequence
from dataclasses import replace
from hashlib import blake2b
from typing import Final

from admin import move_service
from admin.keys import fingerprint
from admin.moves import MoveAnswer
from admin.plans import PlanRequest
from controller.service import Service
from statemachine.commands import BeginMove, CancelMoves
from statemachine.image import Image

PARTITIONS_MAX: Final = 5_000
"""Of one piece: what needs more is several moves, or several cancels."""

_NAME_BYTES: Final = 16


class Pieces:
    """The pieces of one request, and which of them an attempt before this one has done."""

    def __init__(self, service: Service, who: str, request: PlanRequest) -> None:
        self.is_over = False
        """Whether all of it was done before; known once `done_before` was asked."""
        self.who = who
        self._service = service
        self._key = "" if request.dry_run else request.key
        self._fingerprint = fingerprint((who, replace(request, key="")))
        self._count = 0

    def starts(self, count: int) -> range:
        """Where the pieces of so many partitions begin.

        With a key it is remembered as well that there was nothing to do, by a piece of none.
        """
        return range(0, count or bool(self._key), PARTITIONS_MAX)

    async def done_before(self, nothing: BeginMove | CancelMoves) -> list[MoveAnswer]:
        """The answers of the pieces that were done before; `nothing` is a piece without partitions.

        Raises `Refused` if the key belongs to another request.
        """
        if not self._key:
            return []
        self._count, self.is_over = (await self._service.read(self._known)).value
        keys = [self._key_of(place) for place in range(self._count)]
        return [await self._do(nothing, key) for key in (*keys, *[self._key] * self.is_over)]

    async def carry_out(self, pieces: Sequence[BeginMove | CancelMoves]) -> list[MoveAnswer]:
        """Their answers, one after the other; with a key there is at least one piece."""
        assert pieces or not self._key, "nothing would be remembered"
        keys = [self._key_of(self._count + place) for place in range(len(pieces) - 1)]
        keys = [*keys, self._key] if self._key else [""] * len(pieces)
        return [await self._do(piece, key) for piece, key in zip(pieces, keys, strict=True)]

    def _known(self, image: Image) -> tuple[int, bool]:
        count = 0
        while self._key_of(count) in image.keys:
            count += 1
        return count, self._key in image.keys

    def _key_of(self, place: int) -> str:
        """Of a piece that is not the last one; whoever has the same key has the same."""
        name = blake2b(self._key.encode(), digest_size=_NAME_BYTES).hexdigest()
        return f"{name}.{place}"

    async def _do(self, piece: BeginMove | CancelMoves, key: str) -> MoveAnswer:
        return await move_service.alter_moves(
            self._service, self.who, piece, key, self._fingerprint
        )
