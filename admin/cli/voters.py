"""`metadata-quorum alter | add-controller | remove-controller`: change the voters.

`alter` (KIP-595) sets the whole voter set; the other two, as in Kafka's script, one voter.
"""

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

import click

from admin.cli.options import BadInput, Exit, Target, run, say, write
from admin.cli.output import as_json

if TYPE_CHECKING:
    from admin.client.admin_client import AdminClient
    from controller.quorum_description import QuorumDescription
    from quorum.core.vocabulary import ReplicaKey

LISTENER: Final = "CONTROLLER"
LOOK_SECONDS: Final = 0.2


def alter(
    whom: Target, voters: str | None, *, cancel: bool, wait: bool, output: str = "table"
) -> None:
    """Set the voters and wait for the change."""
    if (voters is None) != cancel:
        raise click.UsageError("give --voters 4,5,6, or --cancel for a change in progress")
    target = None if voters is None else parse_voters(voters)
    found = run(_alter(whom, target, wait=wait))
    if output != "table":
        from admin.cli.quorum_text import status_data

        write(as_json(status_data(found)))
        return
    write(f"CurrentVoters: {_ids(found)}")
    if found.target_voters:
        write(f"TargetVoters: {sorted(found.target_voters)}")
        if wait:
            raise SystemExit(Exit.NOT_FINISHED)


def parse_voters(text: str) -> "tuple[ReplicaKey, ...]":
    """Parse `4,5,6`, or `4:DIRECTORY,5`; a usage error for anything else."""
    from quorum.core.vocabulary import NO_DIRECTORY, ReplicaId, ReplicaKey
    from quorum.log.meta_properties import uuid_from_text

    keys = []
    for part in text.split(","):
        number, _, directory = part.strip().partition(":")
        if not number.isascii() or not number.isdigit() or int(number) > 2**31 - 1:
            raise BadInput(
                f"--voters: {part.strip()!r} is not an id; write 4,5,6 or 4:DIRECTORY_ID"
            )
        try:
            directory_id = uuid_from_text(directory) if directory else NO_DIRECTORY
        except ValueError as error:
            raise BadInput(f"--voters: {error}") from None
        keys.append(ReplicaKey(ReplicaId(int(number)), directory_id))
    twice = {key.id for key in keys if [each.id for each in keys].count(key.id) > 1}
    if twice:
        raise BadInput(f"--voters: {min(twice)} is given twice")
    return tuple(keys)


def add(whom: Target, controller_id: int, directory: str | None, listener: Any) -> None:
    """Add a voter; its directory is looked up if not given."""
    key = run(_add(whom, controller_id, directory, listener))
    from quorum.core.vocabulary import uuid_to_text

    write(
        f"Added controller {key.id} with directory id {uuid_to_text(key.directory_id)} and "
        f"endpoints: {LISTENER}://{listener}"
    )


def remove(whom: Target, controller_id: int, directory: str | None) -> None:
    """Remove a voter; its directory is looked up if not given."""
    key = run(_remove(whom, controller_id, directory))
    from quorum.core.vocabulary import uuid_to_text

    # Two spaces, as in Kafka's tool.
    write(f"Removed  KRaft controller {key.id} with directory id {uuid_to_text(key.directory_id)}")


async def _alter(
    whom: Target, target: "Sequence[ReplicaKey] | None", *, wait: bool
) -> "QuorumDescription":
    async with whom.client() as client:
        await client.alter_voters(target)
        if target is None or not wait:
            return await client.describe_quorum()
        return await _watch(client, whom.timeout_ms)


async def _watch(client: "AdminClient", within_ms: int) -> "QuorumDescription":
    """Poll until the change is complete or time is up; show what it waits for."""
    deadline = asyncio.get_running_loop().time() + within_ms / 1_000
    told = ""
    while True:
        found = await client.describe_quorum()
        if not found.target_voters and found.waits_for is None:
            return found
        target = f", target {sorted(found.target_voters)}" if found.target_voters else ""
        waits = f"; waiting for {found.waits_for}" if found.waits_for else ""
        line = f"voters {_ids(found)}{target}{waits}"
        if line != told:
            say(line)
            told = line
        if asyncio.get_running_loop().time() >= deadline:
            return found
        await asyncio.sleep(LOOK_SECONDS)


async def _add(
    whom: Target, controller_id: int, directory: str | None, listener: Any
) -> "ReplicaKey":
    async with whom.client() as client:
        key = _key(await client.describe_quorum(), controller_id, directory, votes=False)
        await client.add_voter(key, [(LISTENER, listener)])
        return key


async def _remove(whom: Target, controller_id: int, directory: str | None) -> "ReplicaKey":
    async with whom.client() as client:
        key = _key(await client.describe_quorum(), controller_id, directory, votes=True)
        await client.remove_voter(key)
        return key


def _key(
    quorum: "QuorumDescription", controller_id: int, directory: str | None, *, votes: bool
) -> "ReplicaKey":
    """The replica key: with the given directory, or the one that the quorum knows."""
    from quorum.core.vocabulary import ReplicaId, ReplicaKey
    from quorum.log.meta_properties import uuid_from_text

    if directory is not None:
        try:
            return ReplicaKey(ReplicaId(controller_id), uuid_from_text(directory))
        except ValueError as error:
            raise BadInput(f"--controller-directory-id: {error}") from None
    candidates = quorum.voters if votes else quorum.observers
    known = [each.directory_id for each in candidates if each.id == controller_id]
    if len(known) != 1:
        what = "voter" if votes else "observer"
        if not known and controller_id in {each.id for each in quorum.voters}:
            what += " but a voter"
        many = (
            f"{len(known)} directories are known"
            if known
            else f"it is not an {what}"
            if not votes
            else f"it is not a {what}"
        )
        raise BadInput(
            f"controller {controller_id}: {many}; give --controller-directory-id; see "
            "describe --replication"
        )
    return ReplicaKey(ReplicaId(controller_id), known[0])


def _ids(quorum: "QuorumDescription") -> list[int]:
    return sorted(each.id for each in quorum.voters)
