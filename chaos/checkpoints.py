"""The snapshots in one folder, read without the product's help: what each says, if it is whole."""

from collections.abc import Mapping
from typing import Final, NamedTuple

from chaos.electorates import Assigned, assigned_by
from chaos.platter import File, Node
from chaos.stored import batches, control_type, records

SUFFIX: Final = ".checkpoint"
HEADER: Final = 3
FOOTER: Final = 4


class Content(NamedTuple):
    """What a whole snapshot says."""

    assigned: Assigned | None
    values: list[bytes]


class Checkpoint(NamedTuple):
    """A snapshot that a folder names, whatever becomes of the power."""

    name: str
    end: int
    epoch: int
    file: File
    content: Content | None
    """None where it is not whole."""

    def __str__(self) -> str:
        return f"snapshot {self.end}@{self.epoch}"


def checkpoints(
    names: Mapping[str, Node], known: Mapping[str, Checkpoint]
) -> tuple[dict[str, Checkpoint], list[Checkpoint]]:
    """Those that a folder names, and which of them were not `known`; only these are read."""
    found: dict[str, Checkpoint] = {}
    new: list[Checkpoint] = []
    for name in sorted([each for each in names if each.endswith(SUFFIX)]):
        file = names[name]
        if not isinstance(file, File):
            continue
        before = known.get(name)
        if before is not None and before.file is file:
            found[name] = before
            continue
        end, epoch = map(int, name.removesuffix(SUFFIX).split("-"))
        found[name] = Checkpoint(name, end, epoch, file, content_of(bytes(file.durable), epoch))
        new.append(found[name])
    return found, new


def content_of(data: bytes, epoch: int) -> Content | None:
    """What these bytes say; None unless they are a whole snapshot of this epoch, nothing else."""
    found = batches(data, checked=True)
    if len(found) < 2 or sum(len(each.data) for each in found) != len(data):
        return None
    bases = [0, *(each.end for each in found)]
    if any(
        (each.base, each.epoch) != (base, epoch) for each, base in zip(found, bases, strict=False)
    ):
        return None
    first, *between, last = found
    kinds = [[control_type(key) for key, _ in records(each.data)] for each in (first, last)]
    if kinds[0][:1] != [HEADER] or kinds[1] != [FOOTER]:
        return None
    values = [value for each in between for _, value in records(each.data)]
    return Content(assigned_by(*first), values)
