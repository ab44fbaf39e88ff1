"""A node with planted faults, for a test of what looks for them: DescribeAcls raises and leaks."""

from dataclasses import replace
from typing import Any, Final

from admin.cli.main import metaquorum
from controller.apis import router
from controller.apis.admin_apis import APIS
from quorum.protocol.apis import ApiKey

LEAK_BYTES: Final = 16 * 1024 * 1024
_kept: list[bytes] = []


async def _planted(*_: Any) -> Any:
    _kept.append(b"x" * LEAK_BYTES)
    raise KeyError("planted")


vars(router)["APIS"] = {
    **APIS,
    ApiKey.DESCRIBE_ACLS: replace(APIS[ApiKey.DESCRIBE_ACLS], handle=_planted),
}
metaquorum()
