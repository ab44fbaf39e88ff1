"""What may be asked about quotas of clients. Values only, never behaviour."""

from msgspec import Struct

from statemachine.errors import Error
from statemachine.records import QuotaEntity


class QuotaOp(Struct, frozen=True, kw_only=True, gc=False):
    """One quota to set, or to remove; the value then says nothing."""

    key: str
    value: float = 0.0
    remove: bool = False


class QuotaChange(Struct, frozen=True, kw_only=True, gc=False):
    """The quotas of one entity to change; what is not named stays."""

    entity: tuple[QuotaEntity, ...]
    ops: tuple[QuotaOp, ...]


class AlterClientQuotas(Struct, frozen=True, kw_only=True, gc=False):
    """Change quotas, or with `validate_only` say what would become of it (api 49, KIP-546)."""

    changes: tuple[QuotaChange, ...]
    validate_only: bool = False


class QuotaAltered(Struct, frozen=True, kw_only=True, gc=False):
    """One entity of AlterClientQuotas."""

    entity: tuple[QuotaEntity, ...]
    error: Error = Error.NONE
    message: str = ""


class ClientQuotasAltered(Struct, frozen=True, kw_only=True, gc=False):
    """Each entity once, in the order in which it is first asked for."""

    entities: tuple[QuotaAltered, ...]
