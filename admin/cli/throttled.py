"""What commands that let moves be planned say of the rate at which these go."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from admin.cli.common import write

if TYPE_CHECKING:
    from admin.client.admin_client import AdminClient
    from admin.moves import MoveStanding


async def tell(client: "AdminClient", moves: Sequence[int], wanted_bytes_per_s: int) -> None:
    """Say at which rate each move goes that was begun now, or before; nothing if none is wanted.

    A move that was begun before keeps its own.
    """
    if not (wanted_bytes_per_s and moves):
        return
    for move in (await client.move_standings(moves)).moves:
        if not move.ended:
            write(_sentence(move, wanted_bytes_per_s))


def _sentence(move: "MoveStanding", wanted_bytes_per_s: int) -> str:
    rate = move.throttle_bytes_per_s
    if rate == wanted_bytes_per_s:
        return f"Move {move.id} copies at most {rate} bytes/s to each broker, and from each."
    now = f"is throttled to {rate} bytes/s" if rate else "is not throttled"
    return (
        f"Move {move.id} had begun before and {now};"
        f" `metaquorum moves throttle {move.id} {wanted_bytes_per_s}` changes that."
    )
