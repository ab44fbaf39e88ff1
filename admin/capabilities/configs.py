"""Configurations: those of brokers and of the cluster, and what all resources have in common."""

from collections import Counter
from collections.abc import Mapping
from typing import Annotated, Any, Final, TypeVar

import msgspec
from msgspec import Meta

from admin.capabilities.needs import ALTER_CLUSTER_CONFIGS, DESCRIBE_CLUSTER_CONFIGS
from admin.capabilities.schema import (
    A_co,
    Answer,
    AsOfOffset,
    BrokerId,
    Context,
    DryRun,
    Request,
    Route,
    check_part,
)
from statemachine.commands import (
    ConfigChange,
    ConfigOp,
    ConfigOperation,
    ConfigsAltered,
    IncrementalAlterConfigs,
)
from statemachine.configs.definitions import ConfigType
from statemachine.configs.describe_configs import ConfigEntry, Source, describe_configs
from statemachine.configs.effective import DEFAULTS
from statemachine.configs.resources import definition
from statemachine.errors import Error, Refusal
from statemachine.image.image import Image
from statemachine.vocabulary import BROKER_RESOURCE, Resource

OF_BROKER: Final = "/v1/brokers/{id}/configs"
OF_CLUSTER: Final = "/v1/cluster/configs"

Values = Annotated[Mapping[str, str], Meta(description="New values by name")]
Items = Annotated[Mapping[str, str], Meta(description="Items, by commas, by the names of lists")]


class Config(Answer, frozen=True, kw_only=True):
    """A configuration of a resource."""

    name: str
    value: Annotated[str | None, Meta(description="null: it has none, or it is a secret")]
    source: Annotated[str, Meta(description="Where the value comes from, in Kafka's words")]
    default: Annotated[
        str | None, Meta(description="The value if none is set; null: there is none")
    ]
    type: Annotated[str, Meta(description="The type of its values, in Kafka's words")]
    is_sensitive: bool
    is_read_only: Annotated[bool, Meta(description="True if only a restart changes it")]


class DescribedConfigs(Answer, frozen=True, kw_only=True):
    """Configurations in the order of their names."""

    as_of_offset: AsOfOffset
    configs: tuple[Config, ...]


class BrokerConfigs(DescribedConfigs, frozen=True, kw_only=True):
    """The configurations of a broker, or of a controller."""

    broker_id: int
    without_file: Annotated[
        str | None,
        Meta(
            description="The reason why the settings in its own file are missing; null: they are "
            "there"
        ),
    ] = "controllers know only what is in the metadata log"


class ChangedBroker(Answer, frozen=True, kw_only=True):
    """The broker whose configurations were changed, or would be."""

    broker_id: int
    dry_run: DryRun


class ChangedCluster(Answer, frozen=True, kw_only=True):
    """The configurations of the cluster were changed, or would be."""

    dry_run: DryRun


D = TypeVar("D", bound=DescribedConfigs)


def described(image: Image, resource: Resource, kind: type[D], **fields: Any) -> D | Refusal:
    """The configurations of a resource as an answer of this kind, whose other fields are given."""
    found = describe_configs(image, resource)
    if isinstance(found, Refusal):
        return found
    return kind(
        as_of_offset=image.end_offset,
        configs=tuple([_config(resource[0], each) for each in found]),
        **fields,
    )


def _config(resource_type: int, entry: ConfigEntry) -> Config:
    known = definition(resource_type, entry.name)
    return Config(
        name=entry.name,
        value=entry.value,
        source=Source(entry.source).name,
        default=None if known is None or entry.is_sensitive else known.default,
        type=ConfigType(entry.type).name,
        is_sensitive=entry.is_sensitive,
        is_read_only=entry.is_read_only,
    )


class DescribeBrokerConfigs(Request[BrokerConfigs], frozen=True, kw_only=True):
    """Describe the configurations of a broker that are in the metadata log.

    They are its own and those of the cluster. Only the broker knows the settings in its own file:
    over HTTP it is asked, unless a stale answer will do.
    """

    broker_id: BrokerId

    NAME = "brokers.configs"
    NEEDS = DESCRIBE_CLUSTER_CONFIGS
    ROUTES = (Route("GET", OF_BROKER, id="broker_id"),)
    ERRORS = (Error.BROKER_ID_NOT_REGISTERED,)
    FAILING = "the configurations of broker {0.broker_id} cannot be described"

    async def answer(self, context: Context) -> BrokerConfigs:
        resource = BROKER_RESOURCE, str(self.broker_id)
        return await context.read(
            lambda image: described(image, resource, BrokerConfigs, broker_id=self.broker_id)
        )


class DescribeClusterConfigs(Request[DescribedConfigs], frozen=True, kw_only=True):
    """Describe the configurations that all brokers share."""

    NAME = "cluster.configs"
    NEEDS = DESCRIBE_CLUSTER_CONFIGS
    ROUTES = (Route("GET", OF_CLUSTER),)
    FAILING = "the configurations of the cluster cannot be described"

    async def answer(self, context: Context) -> DescribedConfigs:
        return await context.read(lambda image: described(image, DEFAULTS, DescribedConfigs))


class AlterConfigs(Request[A_co], frozen=True, kw_only=True):
    """Change configurations of one resource, all or none, and leave the others (KIP-339)."""

    set: Values = msgspec.field(default_factory=dict)
    delete: Annotated[tuple[str, ...], Meta(description="Names that get their defaults back")] = ()
    append: Items = msgspec.field(default_factory=dict)
    subtract: Items = msgspec.field(default_factory=dict)
    dry_run: DryRun = False

    CHANGES = True
    NEEDS_OF_DRY_RUN = None
    STATUS_COMMAND = "metaquorum configs describe"

    def contradiction(self) -> str | None:
        counts = Counter(each.name for each in self._ops())
        if not counts:
            return "nothing is named; set or delete a configuration"
        twice = min((name for name, count in counts.items() if count > 1), default=None)
        if twice is None:
            return None
        if twice in self.set and twice in self.delete:
            return f"{twice} is set and deleted; name it once"
        return f"{twice} is named twice; name it once"

    def _ops(self) -> tuple[ConfigOp, ...]:
        with_values = (
            (ConfigOperation.SET, self.set),
            (ConfigOperation.APPEND, self.append),
            (ConfigOperation.SUBTRACT, self.subtract),
        )
        return (
            *(
                ConfigOp(name=name, operation=operation, value=value)
                for operation, values in with_values
                for name, value in values.items()
            ),
            *(ConfigOp(name=name, operation=ConfigOperation.DELETE) for name in self.delete),
        )

    def resource(self) -> Resource:
        """The resource whose configurations are changed."""
        raise NotImplementedError

    def command(self, who: str = "") -> IncrementalAlterConfigs:
        kind, name = self.resource()
        change = ConfigChange(resource_type=kind, resource_name=name, ops=self._ops())
        return IncrementalAlterConfigs(changes=(change,), validate_only=self.dry_run)

    async def alter(self, context: Context) -> None:
        """Change the configurations of the resource; raises `RequestRefused`."""
        done = await context.service.carry_out(self.command(), ConfigsAltered, who=context.who)
        check_part(done.resources[0])


class AlterBrokerConfigs(AlterConfigs[ChangedBroker], frozen=True, kw_only=True):
    """Set configurations of one broker, or give them back the values of the cluster."""

    broker_id: BrokerId

    NAME = "brokers.alter-configs"
    NEEDS = ALTER_CLUSTER_CONFIGS
    ROUTES = (Route("PATCH", OF_BROKER, id="broker_id", query=("dry_run",)),)
    ERRORS = (Error.BROKER_ID_NOT_REGISTERED, Error.INVALID_CONFIG)
    FAILING = "the configurations of broker {0.broker_id} cannot be changed"

    def resource(self) -> Resource:
        return BROKER_RESOURCE, str(self.broker_id)

    async def answer(self, context: Context) -> ChangedBroker:
        await self.alter(context)
        return ChangedBroker(broker_id=self.broker_id, dry_run=self.dry_run)


class AlterClusterConfigs(AlterConfigs[ChangedCluster], frozen=True, kw_only=True):
    """Set configurations of all brokers, or give them back their defaults."""

    NAME = "cluster.alter-configs"
    NEEDS = ALTER_CLUSTER_CONFIGS
    ROUTES = (Route("PATCH", OF_CLUSTER, query=("dry_run",)),)
    ERRORS = (Error.INVALID_CONFIG,)
    FAILING = "the configurations of the cluster cannot be changed"

    def resource(self) -> Resource:
        return DEFAULTS

    async def answer(self, context: Context) -> ChangedCluster:
        await self.alter(context)
        return ChangedCluster(dry_run=self.dry_run)
