"""The quota that applies to a client, of all that are set for users and client ids (KIP-55)."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from statemachine.commands import QuotaOwner
from statemachine.image.image import QuotaHolder
from statemachine.records.kafka_records import QuotaEntity

USER: Final = "user"
CLIENT_ID: Final = "client-id"
CONTROLLER_MUTATION_RATE: Final = "controller_mutation_rate"

_ANY_USER: Final = QuotaEntity(type=USER, name=None)
_ANY_ID: Final = QuotaEntity(type=CLIENT_ID, name=None)
_NONE: Final[Mapping[str, float]] = MappingProxyType({})


def controller_mutation_quota(
    quotas: Mapping[QuotaHolder, Mapping[str, float]], user: str, client_id: str
) -> tuple[QuotaOwner, float] | None:
    """Return the quota of a client for controller mutations, and who shares it; None without one.

    The most specific one applies, in the order of Kafka's `ClientQuotaManager`. A quota for a user
    with a client id, each named or by default, is that of this client alone. All clients of a user
    share one for the user, and all users one for the client id. No quota of a client id applies to
    a client without one.
    """
    this_user = QuotaEntity(type=USER, name=user)
    this_id = QuotaEntity(type=CLIENT_ID, name=client_id)
    own, of_user, of_id = (user, client_id), (user, ""), ("", client_id)
    for owner, holder in (
        (own, (this_id, this_user)),
        (own, (_ANY_ID, this_user)),
        (of_user, (this_user,)),
        (own, (this_id, _ANY_USER)),
        (own, (_ANY_ID, _ANY_USER)),
        (of_user, (_ANY_USER,)),
        (of_id, (this_id,)),
        (of_id, (_ANY_ID,)),
    ):
        if client_id or owner is of_user:
            rate = quotas.get(holder, _NONE).get(CONTROLLER_MUTATION_RATE)
            if rate is not None:
                return owner, rate
    return None
