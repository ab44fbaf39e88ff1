"""An older release of the program, as far as the product knows that there is one.

It serves Vote up to version 1, so that it cannot be asked for a pre-vote (KIP-996); it does not
echo the rounds of reads; and it keeps its vote in version 0 of the file, without a directory.
"""

import re
from typing import TYPE_CHECKING, Final

from chaos.network.virtual_network import Packet
from chaos.simulation.machine import LOG, QUORUM_STATE, Machine
from quorum.core.messages import Error, VoteRequest, VoteResponse

if TYPE_CHECKING:
    from chaos.simulation.process import Process

_DIRECTORY: Final = re.compile(rb'"votedDirectoryId":"[^"]*"')
_OLD_FIELDS: Final = b'"appliedOffset":0,"currentVoters":[]'
_VERSION: Final = (b'"data_version":1', b'"data_version":0')


def cannot_be_asked(process: "Process", packet: Packet) -> bool:
    """Whether the program of this process does not serve this call; its asker is told so, as
    `RaftCalls` does when it has seen which versions are served."""
    request = packet.request
    if not process.machine.is_old or not isinstance(request, VoteRequest) or not request.pre_vote:
        return False
    process.world.note("a pre-vote is not known")
    process.world.cross_node.cannot_promise(packet.boot, request.epoch)
    said = VoteResponse(error=Error.UNSUPPORTED_VERSION, epoch=request.epoch)
    answer = (process.id, packet.sender, packet.boot, packet.call, request, said)
    process.world.network.post(Packet(*answer))
    return True


def upgrade(machine: Machine) -> None:
    """Let the newer release find what the older one has left."""
    machine.is_old = machine.upgrades = False
    path = LOG / QUORUM_STATE
    if not machine.disk.exists(path):
        return
    now = machine.disk.content(path)
    before = _DIRECTORY.sub(_OLD_FIELDS, now).replace(*_VERSION)
    if len(before) <= len(now):
        machine.disk.overwrite(path, 0, before.ljust(len(now)))
