"""A name with several addresses: the connection, and the error if none answers."""

import asyncio
import socket
from collections.abc import Sequence

import pytest

from quorum.transport.address import REFUSALS, Address, addresses_of, dial, in_words
from tests.quorum.transport.conftest import Run
from tests.quorum.transport.loopback import (
    Handler,
    ManualClock,
    Peer,
    answer_to,
    refusing_port,
    serving,
    vote,
)

NAME = "node-1.test"


async def two_addresses(host: str) -> Sequence[str]:
    assert host == NAME
    return ["127.0.0.2", "127.0.0.1"]


def test_a_name_whose_addresses_all_refuse_is_refused(run: Run) -> None:
    async def test() -> None:
        with pytest.raises(REFUSALS):
            await dial(Peer, Address(NAME, refusing_port()), two_addresses)

    run(test())


def test_an_address_that_refuses_does_not_hide_one_that_accepts(run: Run) -> None:
    async def test() -> None:
        async with serving(Handler(), ManualClock()) as (_, port):
            peer = Peer()
            await dial(lambda: peer, Address(NAME, port), two_addresses)
            peer.write(vote(1, b"ping"))
            assert await peer.take_frame() == answer_to(1, b"ping")[4:]
            peer.close()
            await asyncio.wait({peer.lost})

    run(test())


async def no_addresses_yet(_: str) -> Sequence[str]:
    raise OSError("the resolver does not answer")


def test_a_name_that_is_not_known_is_no_refusal(run: Run) -> None:
    async def test() -> None:
        with pytest.raises(OSError, match="the resolver") as raised:
            await dial(Peer, Address(NAME, 9_092), no_addresses_yet)
        assert not isinstance(raised.value, REFUSALS)

    run(test())


@pytest.mark.parametrize("host", ["127.0.0.1", "::1"])
def test_a_host_that_is_an_address_is_not_looked_up(run: Run, host: str) -> None:
    async def test() -> None:
        assert await addresses_of(host) == [host]

    run(test())


def test_the_name_of_this_machine_has_addresses(run: Run) -> None:
    async def test() -> None:
        assert set(await addresses_of("localhost")) <= {"127.0.0.1", "::1"}

    run(test())


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (ConnectionRefusedError(111, "Connect call failed ('127.0.0.1', 1)"), "Connection refused"),
        (socket.gaierror(-2, "Name or service not known"), "[Errno -2] Name or service not known"),
        (OverflowError("connect(): port must be 0-65535."), "connect(): port must be 0-65535."),
    ],
)
def test_a_failure_is_told_in_the_words_of_the_system(error: Exception, words: str) -> None:
    assert in_words(error) == words
