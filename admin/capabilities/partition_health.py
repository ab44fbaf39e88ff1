"""Partitions at risk: without a leader, or with fewer replicas in sync than min ISR."""

from admin.capabilities.needs import DESCRIBE_CLUSTER
from admin.capabilities.schema import AsOfOffset, Context, Request, Route
from statemachine.partitions.at_risk import PartitionHealth, partition_health


class DescribedHealth(PartitionHealth, frozen=True, kw_only=True):
    """The partitions at risk, as of an offset."""

    as_of_offset: AsOfOffset


class DescribePartitionHealth(Request[DescribedHealth], frozen=True, kw_only=True):
    """Count the partitions without a leader and under min ISR, and list the first of them."""

    NAME = "partitions.health"
    NEEDS = DESCRIBE_CLUSTER
    ROUTES = (Route("GET", "/v1/partitions/health"),)
    FAILING = "the partitions cannot be described"

    async def answer(self, context: Context) -> DescribedHealth:
        found = await context.service.read_long(partition_health, stale=context.stale)
        return DescribedHealth(
            as_of_offset=found.offset,
            **{name: getattr(found.value, name) for name in PartitionHealth.__struct_fields__},
        )
