"""Requests of brokers, served by a controller: `controller.apis.brokers` without bytes.

An answer is a value of the state machine, or `Unavailable`.
"""

from functools import partial
from typing import Any

from msgspec.structs import replace

from chaos.cluster.process import ControllerProcess
from chaos.cluster.rpc import Respond, Serve, Server
from controller.ports import Unavailable
from statemachine import commands
from statemachine.reassignment.copies import CopyReport


def _controller(process: Server) -> ControllerProcess:
    assert isinstance(process, ControllerProcess), f"{process.id} is no controller"
    return process


def command(command: commands.Command) -> Serve:
    """A command for the controller to decide."""

    def serve(process: Server, respond: Respond) -> None:
        _controller(process).submit(command, respond)

    return serve


def registration(command: commands.RegisterBroker) -> Serve:
    """A broker registration, completed with the controller's cluster id."""

    def serve(process: Server, respond: Respond) -> None:
        node = _controller(process)
        completed = replace(
            command,
            our_cluster_id=node.cluster.id or "",
            kraft_version=node.controller.kraft_version,
        )
        node.submit(completed, partial(_registered, node, command.broker_id, respond))

    return serve


def _registered(node: ControllerProcess, broker_id: int, respond: Respond, answer: Any) -> None:
    sessions = node.controller.heartbeats
    is_done = isinstance(answer, commands.BrokerRegistered) and not answer.error.code
    if sessions is not None and is_done:
        sessions.touch(broker_id, node.now_ms())
    respond(answer)


def heartbeat(command: commands.BrokerHeartbeat, copies: tuple[CopyReport, ...] = ()) -> Serve:
    """A broker heartbeat with the progress of its copies."""

    def serve(process: Server, respond: Respond) -> None:
        node = _controller(process)
        sessions = node.controller.heartbeats
        if sessions is None:
            respond(Unavailable.NOT_ACTIVE)
            return
        node.submit(sessions.heard(command, copies, node.now_ms()), respond)

    return serve
