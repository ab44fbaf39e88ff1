"""Turns of the event loop are shared among addresses, and then among their connections."""

import asyncio
from dataclasses import dataclass, field

from quorum.transport.admission import RequestPacer
from quorum.transport.limits import TURN_REQUESTS_MAX


@dataclass(eq=False)
class Flooding:
    """A connection that has more requests than it may hand on."""

    pacer: RequestPacer
    network: str
    is_open: bool = True
    is_served_first: bool = False
    served: int = 0
    each_turn: list[int] = field(default_factory=list)

    def on_turn(self) -> None:
        taken = 0
        while taken < 4 and self.pacer.take():
            taken += 1
        self.served += taken
        self.each_turn.append(taken)
        self.pacer.wait(self)

    def on_room(self, size_bytes: int) -> None:
        raise AssertionError


async def test_a_client_does_not_wait_for_all_connections_of_another_address() -> None:
    pacer = RequestPacer(clock_ns=lambda: 1)
    flood = [Flooding(pacer, "127.0.0.2") for _ in range(1_000)]
    for each in flood:
        pacer.wait(each)
    other = Flooding(pacer, "127.0.0.1")
    pacer.wait(other)
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert other.served >= TURN_REQUESTS_MAX // 4
    assert sum(each.served for each in flood) >= TURN_REQUESTS_MAX // 4


async def test_connections_of_one_address_take_turns() -> None:
    pacer = RequestPacer(clock_ns=lambda: 1)
    flood = [Flooding(pacer, "127.0.0.2") for _ in range(64)]
    for each in flood:
        pacer.wait(each)
    for _ in range(4):
        await asyncio.sleep(0)
    assert max(each.served for each in flood) - min(each.served for each in flood) <= 4


async def test_connections_that_have_closed_are_forgotten_while_no_turns_are_given() -> None:
    pacer = RequestPacer(clock_ns=lambda: 1)
    flood = [Flooding(pacer, "127.0.0.2") for _ in range(3)]
    for each in flood:
        pacer.wait(each)
    flood[0].is_open = False
    pacer.hold()
    pacer.go_on()
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert flood[0].served == 0
    assert all(each.served for each in flood[1:])
