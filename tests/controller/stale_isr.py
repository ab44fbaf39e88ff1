"""KAFKA-14139 in six steps: a broker loses its disk while the leader's request for it is late.

`python -m tests.controller.stale_isr FOLDER NAME` runs them in its own process, with the
fault of that name, and prints what the brokers hold in the end.
"""

import asyncio
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

from chaos.mutants.catalogue import named
from chaos.mutants.mutant import plant

if TYPE_CHECKING:
    from broker.partition.partition import Partition

ACKNOWLEDGED: Final = b"acknowledged"
A: Final = 1
B: Final = 2
NO_DIRECTORIES: Final = 16
"""A level of metadata.version at which the broker epochs are all there is to tell.

From 17 on (KIP-858) another disk is another directory, and that is a second reason to refuse.
"""


async def six_steps(tmp_path: Path, level: int) -> dict[int, list[str]]:
    """The logs of A and B when the six steps are over and A, too, has failed and come back."""
    # Not at the top: a fault is planted before anything of the product is imported.
    from statemachine.commands import IsrMember
    from tests.broker.client_requests import batch, produce
    from tests.broker.embedded_cluster import cluster, until

    async with cluster(tmp_path, A, B, level=level) as brokers:
        controller = brokers.controller
        # A partition with two replicas, A and B; A leads and is alone in the ISR.
        await brokers.create("t", (A, B))
        await brokers.stop(B)
        controller.fence(B)
        assert controller.of("t").isr == (A,)
        assert (await produce(brokers[A], "t", batch(ACKNOWLEDGED))).error_code == 0

        # 1. B catches up, and A asks the controller to take it into the ISR.
        controller.is_deaf = True
        await brokers.start(B)
        await until(lambda: len(controller.unheard) > 0)
        assert values(brokers[B].partition("t")) == [ACKNOWLEDGED.decode()]

        epoch_before = controller.image.brokers[B].broker_epoch

        # 2. Before the request is received, B fails hard.
        await brokers.stop(B, clean=False)

        # 3. The controller fences B, and changes nothing: B is not in the ISR anyway.
        before = controller.of("t")
        controller.fence(B)
        assert controller.of("t") == before

        # 4. B starts again on another disk: all that it had is lost.
        # 5. The controller hears of this registration first.
        await brokers.start(B, disk="-new", copies=False)
        assert not values(brokers[B].partition("t"))
        assert controller.image.brokers[B].live

        # 6. Now the request of A arrives.
        controller.hear()
        assert [each.isr for each in controller.altered[-1].proposals] == [
            (IsrMember(A, controller.image.brokers[A].broker_epoch), IsrMember(B, epoch_before))
        ]

        # Then A fails as well, and comes back.
        await brokers.stop(A, clean=False)
        controller.fence(A)
        await brokers.start(A)
        brokers[B].manager.broker_epoch = controller.image.brokers[B].broker_epoch
        await until(lambda: set(controller.of("t").isr) == {A, B})
        return {each: values(brokers[each].partition("t")) for each in (A, B)}


def values(partition: "Partition") -> list[str]:
    """The records of one replica, from its log."""
    from quorum.core.vocabulary import Offset
    from quorum.records.decode import decode

    data = partition.log.read(partition.log.start, Offset(partition.log_end), 1 << 20)
    return [(record.value or b"").decode() for record in decode(data)]


def main() -> None:
    """See the module."""
    folder, name = sys.argv[1:]
    plant(named(name))
    sys.stdout.write(json.dumps(asyncio.run(six_steps(Path(folder), NO_DIRECTORIES))))


if __name__ == "__main__":
    main()
