"""The leader dies at any step of a voter change, and the next one continues."""

from typing import Final

import pytest

from quorum.core.roles import Leader
from quorum.core.vocabulary import ReplicaId
from tests.quorum.core.voter_commands import VotersStage
from tests.support.parameters import few_in_quick


def begun(*, extra: tuple[int, ...]) -> VotersStage:
    stage = VotersStage()
    stage.answer("voters 1 2 3 on disks led by 1")
    for observer in extra:
        stage.answer(f"observer {observer}")
    stage.answer("run 1000")
    stage.answer(f"locate {' '.join(map(str, extra))}")
    return stage


# What happens from the command to its end, one flush, inbox or timer each; and a few after it.
MOVES: Final = 220


def test_the_moves_reach_from_the_command_to_its_end() -> None:
    stage = begun(extra=(4, 5, 6))
    stage.answer("want 1 alter 4 5 6")
    stage.answer("tick 1")
    for _ in range(MOVES):
        stage.move()
    assert {host.node.voters.sorted() for host in stage.hosts.values()} == {(4, 5, 6)}
    assert {host.node.target_voters for host in stage.hosts.values()} == {None}


@pytest.mark.parametrize("moves", few_in_quick(range(MOVES), every=8))
def test_the_next_leader_continues_whenever_the_leader_dies(moves: int) -> None:
    """The judge on the stage looks at every step; here it is seen that the end is reached."""
    stage = begun(extra=(4, 5, 6))
    stage.answer("want 1 alter 4 5 6")
    stage.answer("tick 1")
    for _ in range(moves):
        stage.move()
    leader = next(
        (me for me, host in stage.hosts.items() if isinstance(host.node.role, Leader)), ReplicaId(1)
    )
    stage.answer(f"crash {leader}")
    stage.answer("run 6000")
    stage.answer(f"restart {leader}")
    if not any("->" in record.word for record in stage.disks[ReplicaId(2)].records):
        # It died before anybody else had the target: whoever asked has no answer, and asks again.
        new = next(me for me, host in stage.hosts.items() if isinstance(host.node.role, Leader))
        stage.answer("locate 4 5 6")
        stage.answer(f"want {new} alter 4 5 6")
    stage.answer("run 6000")
    nodes = [host.node for host in stage.hosts.values()]
    assert {node.voters.sorted() for node in nodes} == {(4, 5, 6)}
    assert {node.target_voters for node in nodes} == {None}
    assert {node.high_watermark for node in nodes} == {nodes[0].log_end.offset}
