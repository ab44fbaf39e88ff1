"""A command about configurations without what must not be shown, as it goes into the audit log."""

from typing import Final

from msgspec.structs import replace

from statemachine.commands import AlterConfigs, IncrementalAlterConfigs
from statemachine.config_rules import is_sensitive

HIDDEN: Final = "[hidden]"
"""Stands for a value that is there."""


def without_secrets(
    command: IncrementalAlterConfigs | AlterConfigs,
) -> IncrementalAlterConfigs | AlterConfigs:
    """The same command with every sensitive value replaced."""
    if isinstance(command, IncrementalAlterConfigs):
        changes = tuple(
            replace(
                change,
                ops=tuple(
                    replace(op, value=_shown(change.resource_type, op.name, op.value))
                    for op in change.ops
                ),
            )
            for change in command.changes
        )
        return replace(command, changes=changes)
    replacements = tuple(
        replace(
            each,
            configs=tuple(
                (name, _shown(each.resource_type, name, value)) for name, value in each.configs
            ),
        )
        for each in command.replacements
    )
    return replace(command, replacements=replacements)


def _shown(kind: int, name: str, value: str | None) -> str | None:
    return HIDDEN if value is not None and is_sensitive(kind, name) else value
