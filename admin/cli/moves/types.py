"""What commands about moves take: an id, a priority, a rate, a key, a partition. One place."""

from typing import TYPE_CHECKING, Any, Final

import click
from click.core import ParameterSource

if TYPE_CHECKING:
    from admin.model import PartitionId

MOVE_ID: Final = click.IntRange(1, 2**63 - 1)
PRIORITY: Final = click.IntRange(-(2**31), 2**31 - 1)
RATE: Final = click.IntRange(1, 2**63 - 1)
"""Bytes a second."""
RATE_OR_NONE: Final = click.IntRange(0, 2**63 - 1)
"""As above; 0 is no limit."""
PARTITION_MAX: Final = 2**31 - 1


def _given_key(ctx: click.Context, param: click.Parameter, key: str) -> str:
    """An empty key is none, but nobody writes one for that: a variable of a script was not set."""
    is_given = ctx.get_parameter_source(str(param.name)) is ParameterSource.COMMANDLINE
    if not key and is_given:
        raise click.BadParameter("it is empty", ctx, param)
    return key


key_option = click.option(
    "--key",
    default="",
    callback=_given_key,
    help="Carried out once, however often it is asked for with this key.",
)


def check_key(key: str, *, dry_run: bool = False) -> None:
    """A usage error for what cannot be a key, or where none is needed; the empty one is none."""
    if not key:
        return
    if dry_run:
        raise click.UsageError("--dry-run begins nothing; leave --key out")
    from admin.keys import wrong_key

    reason = wrong_key(key)
    if reason is not None:
        raise click.UsageError(reason)


class PartitionName(click.ParamType["PartitionId"]):
    """`orders-7`: partition 7 of topic orders."""

    name = "topic-number"

    def convert(self, value: Any, param: Any, ctx: Any) -> "PartitionId":
        """The partition; a usage error for what is none."""
        from admin.model import PartitionId

        if isinstance(value, PartitionId):
            return value
        topic, _, number = value.rpartition("-")
        is_number = number.isascii() and number.isdecimal()
        # Also of digits there are too many to be read as a number.
        is_number = is_number and len(number) <= len(str(PARTITION_MAX))
        if not topic or not is_number or int(number) > PARTITION_MAX:
            right = "write its topic and number: orders-7"
            self.fail(f"{value!r} is no partition; {right}", param, ctx)
        return PartitionId(topic, int(number))
