"""Client quotas (KIP-546): list those of users, clients and hosts, and change them."""

from collections.abc import Mapping
from typing import Annotated, Final, Literal, TypeAlias

import msgspec
from msgspec import UNSET, Meta, Struct, UnsetType

from admin.capabilities.needs import ALTER_CLUSTER_CONFIGS, DESCRIBE_CLUSTER_CONFIGS
from admin.capabilities.paging import Page, PageRequest
from admin.capabilities.schema import (
    Answer,
    Context,
    DryRun,
    Request,
    Route,
    check_part,
)
from statemachine.commands import AlterClientQuotas, ClientQuotasAltered, QuotaChange, QuotaOp
from statemachine.configs.quota_precedence import CLIENT_ID, USER
from statemachine.configs.quotas import (
    IP,
    Match,
    QuotaFilter,
    matching_quotas,
    quota_key,
    quotas_of,
)
from statemachine.errors import Refusal
from statemachine.image.image import Image, QuotaHolder
from statemachine.records.kafka_records import QuotaEntity
from statemachine.slices import SORTED_US, Slices

BASE: Final = "/v1/quotas"

EntityType: TypeAlias = Literal["user", "client_id", "ip"]
_TYPES: Final[Mapping[str, str]] = {"user": USER, "client_id": CLIENT_ID, "ip": IP}
"""Kafka's types of entities by the names of fields."""
_FIELDS: Final = {kind: field for field, kind in _TYPES.items()}

Part: TypeAlias = str | UnsetType | None


class Entity(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The holder of quotas: a user, a client id, both together, or a host.

    null stands for the default of those without quotas of their own; a part that is not there is
    no part of the entity.
    """

    user: Part = UNSET
    client_id: Part = UNSET
    ip: Part = UNSET


class EntityQuotas(Answer, frozen=True, kw_only=True):
    """The quotas of one entity."""

    entity: Entity
    quotas: Annotated[dict[str, float], Meta(description="Values by name, as Kafka names them")]


class Quotas(Page, frozen=True, kw_only=True):
    """Entities with quotas, in the order of their types and names."""

    entities: tuple[EntityQuotas, ...]


class ChangedQuotas(Answer, frozen=True, kw_only=True):
    """The entity whose quotas were changed, or would be."""

    entity: Entity
    dry_run: DryRun


class ListQuotas(PageRequest[Quotas], frozen=True, kw_only=True):
    """List the entities that pass a filter, page by page, with their quotas.

    An entity passes if each type that is named, in any of the ways, is a part of it like this.
    """

    user: Annotated[str, Meta(min_length=1, description="The user of this name")] | None = None
    client_id: Annotated[str, Meta(min_length=1, description="This client id")] | None = None
    ip: Annotated[str, Meta(min_length=1, description="This host")] | None = None
    default: Annotated[
        tuple[EntityType, ...], Meta(description="Types whose default is asked for")
    ] = ()
    any: Annotated[
        tuple[EntityType, ...], Meta(description="Types of which any name is asked for")
    ] = ()
    strict: Annotated[bool, Meta(description="Only entities without parts of other types")] = False

    NAME = "quotas.list"
    NEEDS = DESCRIBE_CLUSTER_CONFIGS
    ROUTES = (Route("GET", BASE),)
    FAILING = "the quotas cannot be listed"
    ITEMS = "entities"
    POSITION = tuple[tuple[str, str], ...]

    async def answer(self, context: Context) -> Quotas:
        return await context.read_long(self._page)

    def _filters(self) -> list[QuotaFilter]:
        named = {"user": self.user, "client_id": self.client_id, "ip": self.ip}
        return [
            *(
                QuotaFilter(type=_TYPES[field], match=Match.EXACT, name=name)
                for field, name in named.items()
                if name is not None
            ),
            *(QuotaFilter(type=_TYPES[each], match=Match.DEFAULT) for each in self.default),
            *(QuotaFilter(type=_TYPES[each], match=Match.SPECIFIED) for each in self.any),
        ]

    def _page(self, image: Image) -> Slices[Quotas | Refusal]:
        matching = matching_quotas(image.quotas, self._filters(), strict=self.strict)
        if isinstance(matching, Refusal):
            return matching
        cut = yield from self.cut(None if each is None else quota_key(each) for each in matching)
        entities = []
        for key in cut.shown:
            holder = tuple([QuotaEntity(type=kind, name=name or None) for kind, name in key])
            entities.append(EntityQuotas(entity=_entity(holder), quotas=quotas_of(image, holder)))
            yield SORTED_US
        return Quotas(
            as_of_offset=image.end_offset,
            total=cut.total,
            next_page_token=cut.next_page_token,
            entities=tuple(entities),
        )


class AlterQuotas(Request[ChangedQuotas], frozen=True, kw_only=True):
    """Set quotas of one entity, or remove them; all of them or none."""

    entity: Entity
    set: Annotated[dict[str, float], Meta(description="New values by name")] = msgspec.field(
        default_factory=dict
    )
    delete: Annotated[tuple[str, ...], Meta(description="Names of quotas to remove")] = ()
    dry_run: DryRun = False

    NAME = "quotas.alter"
    NEEDS = ALTER_CLUSTER_CONFIGS
    NEEDS_OF_DRY_RUN = None
    CHANGES = True
    ROUTES = (Route("PATCH", BASE, query=("dry_run",)),)
    FAILING = "the quotas cannot be changed"
    STATUS_COMMAND = "metaquorum quotas describe"

    def contradiction(self) -> str | None:
        if not _holder(self.entity):
            return f"entity names nobody; give {', '.join(_TYPES)}"
        if not self.set and not self.delete:
            return "nothing is named; set or delete a quota"
        both = sorted({*self.delete} & {*self.set})
        return f"{both[0]} is set and deleted; name it once" if both else None

    def command(self, who: str = "") -> AlterClientQuotas:
        ops = (
            *(QuotaOp(key=name, value=value) for name, value in self.set.items()),
            *(QuotaOp(key=name, remove=True) for name in self.delete),
        )
        change = QuotaChange(entity=_holder(self.entity), ops=ops)
        return AlterClientQuotas(changes=(change,), validate_only=self.dry_run)

    async def answer(self, context: Context) -> ChangedQuotas:
        done = await context.service.carry_out(self.command(), ClientQuotasAltered, who=context.who)
        check_part(done.entities[0])
        return ChangedQuotas(entity=self.entity, dry_run=self.dry_run)


def _holder(entity: Entity) -> QuotaHolder:
    parts = {kind: getattr(entity, field) for field, kind in _TYPES.items()}
    return tuple(
        QuotaEntity(type=kind, name=name) for kind, name in parts.items() if name is not UNSET
    )


def _entity(holder: QuotaHolder) -> Entity:
    return Entity(**{_FIELDS[part.type]: part.name for part in holder})
