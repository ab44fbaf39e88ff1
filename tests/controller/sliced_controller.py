"""A controller whose slices run when a test says so."""

from collections.abc import Callable

from controller.ports import Unavailable
from statemachine import commands
from statemachine.errors import Error
from tests.controller.controller_commands import heartbeat, registration
from tests.controller.lone_controller import Lone


class Sliced(Lone):
    """As `Lone`, but that what takes long is done slice by slice."""

    def __init__(self, *broker_ids: int) -> None:
        """With these brokers, which live."""
        self.due: list[Callable[[], None]] = []
        super().__init__(later=self.due.append)
        self.finish()
        for broker_id in broker_ids:
            (registered,) = self.answer(registration(broker_id))
            assert isinstance(registered, commands.BrokerRegistered)
            assert registered.error is Error.NONE, registered
            (alive,) = self.answer(heartbeat(self.controller, broker_id))
            assert isinstance(alive, commands.HeartbeatAnswered)
            assert not alive.fenced

    def take_slice(self) -> bool:
        """One slice of what is under way; whether there was one."""
        if not self.due:
            return False
        self.due.pop(0)()
        return True

    def finish(self) -> None:
        """All slices that there are, and everything committed."""
        while self.take_slice():
            self.settle()
        self.settle()

    def answer(self, command: commands.Command) -> list[commands.Answer | Unavailable]:
        """The answer to this command, which has unlimited time."""
        told = self.ask(command)
        self.finish()
        return told

    def stop_leading(self) -> None:
        """The lead is given up."""
        self.replica.say_farewell()
        self.replica.turn()
        assert not self.controller.is_active


def moves(name: str, count: int, *replicas: int) -> commands.AlterReassignments:
    """All partitions of a topic are to have these replicas."""
    return commands.AlterReassignments(
        reassignments=tuple(
            commands.Reassignment(topic=name, partition=number, replicas=replicas)
            for number in range(count)
        )
    )
