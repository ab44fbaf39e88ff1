"""A node with a planted fault, for a test of what looks for it: DescribeClientQuotas raises."""

from dataclasses import replace
from typing import Any

from admin.cli.main import metaquorum
from controller.apis import router
from controller.apis.admin_apis import APIS
from quorum.protocol.apis import ApiKey


async def _planted(*_: Any) -> Any:
    raise KeyError("planted")


vars(router)["APIS"] = {
    **APIS,
    ApiKey.DESCRIBE_CLIENT_QUOTAS: replace(APIS[ApiKey.DESCRIBE_CLIENT_QUOTAS], handle=_planted),
}
metaquorum()
