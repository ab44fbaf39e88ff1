"""What may be asked about configurations. Values only, never behaviour."""

from enum import IntEnum

from msgspec import Struct

from statemachine.errors import Error


class ConfigOperation(IntEnum):
    """What IncrementalAlterConfigs does with a configuration (KIP-339)."""

    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3


class ConfigOp(Struct, frozen=True, kw_only=True, gc=False):
    """One configuration to change."""

    name: str
    operation: int
    """A `ConfigOperation`, or any other number that somebody sent."""
    value: str | None = None


class ConfigChange(Struct, frozen=True, kw_only=True, gc=False):
    """The changes of one resource; what is not named stays."""

    resource_type: int
    resource_name: str
    ops: tuple[ConfigOp, ...]


class IncrementalAlterConfigs(Struct, frozen=True, kw_only=True, gc=False):
    """Change configurations, or with `validate_only` say what would become of it (api 44)."""

    changes: tuple[ConfigChange, ...]
    validate_only: bool = False


class ConfigReplacement(Struct, frozen=True, kw_only=True, gc=False):
    """All configurations of one resource; what is not named is removed."""

    resource_type: int
    resource_name: str
    configs: tuple[tuple[str, str | None], ...]


class AlterConfigs(Struct, frozen=True, kw_only=True, gc=False):
    """Replace all configurations of resources (api 33, which KIP-339 advises against)."""

    replacements: tuple[ConfigReplacement, ...]
    validate_only: bool = False


class ConfigAltered(Struct, frozen=True, kw_only=True, gc=False):
    """One resource of a change."""

    resource_type: int
    resource_name: str
    error: Error = Error.NONE
    message: str = ""


class ConfigsAltered(Struct, frozen=True, kw_only=True, gc=False):
    """Each resource once, in the order in which it is first asked for."""

    resources: tuple[ConfigAltered, ...]
