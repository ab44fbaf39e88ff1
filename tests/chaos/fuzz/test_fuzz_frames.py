"""The frames of the fuzzer: the same for a seed, and of every API, version and kind."""

import random

from chaos.fuzz.attack import Orders, Target, frames_of
from chaos.fuzz.frames import Kind, corpus
from quorum.protocol.apis import SPOKEN
from quorum.protocol.codec import decode_request


def orders(target: Target, *, seed: int = 7, is_harmless: bool = False) -> Orders:
    return Orders(
        seed=seed,
        first=0,
        frames=1,
        target=target,
        is_harmless=is_harmless,
        addresses=(("127.0.0.1", 9),),
        journal="",
    )


def test_a_frame_follows_from_the_seed_and_its_number() -> None:
    for target in Target:
        one, other = frames_of(orders(target)), frames_of(orders(target))
        assert [one.frame(90), one.frame(3)] == [other.frame(90), other.frame(3)]
        assert one.frame(3) != frames_of(orders(target, seed=8)).frame(3)


def test_there_is_every_kind() -> None:
    for target in Target:
        frames = frames_of(orders(target))
        assert {frames.frame(each).kind for each in range(2_000)} == set(Kind)


def test_the_corpus_has_valid_requests_of_every_api_and_version() -> None:
    samples = corpus(random.Random(1), harmless=False)
    for each in samples:
        decode_request(each.api_key, each.version, each.body)
    every = {
        (key, version)
        for key, spoken in SPOKEN.items()
        for version in range(spoken.lowest, spoken.highest + 1)
    }
    assert {(each.api_key, each.version) for each in samples} == every
