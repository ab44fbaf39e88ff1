"""The base of every capability: a typed request, its typed answer, its routes and how to answer.

A capability is a subclass of `Request[Answer]`. Its bytes on the private request of the Kafka
listener, its HTTP routes, its JSON and its row in `docs/capabilities.md` follow from it.
"""

import asyncio
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from functools import cache
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Final, Generic, Self, TypeVar, get_args

import msgspec
from msgspec import Meta, Struct

from admin.capabilities.needs import DESCRIBE_CLUSTER, Needs
from admin.faults import Refused
from controller.move_requests import new_key, wrong_key
from quorum.protocol.errors import ErrorCode, RequestRefused
from quorum.protocol.principal import KafkaPrincipal
from statemachine import commands
from statemachine.errors import Error, Refusal

if TYPE_CHECKING:
    from controller.service import Service
    from statemachine.image.image import Image
    from statemachine.slices import Slices

A = TypeVar("A")
A_co = TypeVar("A_co", covariant=True)
T = TypeVar("T")

BrokerId = Annotated[int, Meta(ge=0, le=2**31 - 1, description="Id of a broker")]
MoveId = Annotated[int, Meta(gt=0, le=2**63 - 1, description="Id of a move")]
PartitionNumber = Annotated[int, Meta(ge=0, le=2**31 - 1, description="Number of a partition")]
AsOfOffset = Annotated[int, Meta(description="The answer includes every record below this offset")]
IdempotencyKey = Annotated[
    str,
    Meta(description="Idempotency key: a request that is repeated with it is carried out once"),
]
DryRun = Annotated[bool, Meta(description="Check the request and change nothing")]
REPEATED_FIELD: Final = "repeated"
Repeated = Annotated[bool, Meta(description="A request with this key was carried out before")]


@dataclass(frozen=True, slots=True)
class Route:
    """An HTTP route, and the fields of the request that its parts stand for.

    `key` comes from its header, and every field not named here from the JSON body.
    """

    method: str
    path: str
    id: str = ""
    """The field that `{id}` in the path stands for."""
    ids: str = ""
    """The field that the query parameter `ids` stands for."""
    query: tuple[str, ...] = ()
    """Fields that are query parameters of the same name."""
    fixed: Mapping[str, Any] = field(default_factory=dict)
    """Fields that the route itself gives."""
    excluded: tuple[str, ...] = ()
    """Fields that contradict those of the route."""
    without_body: Mapping[str, Any] = field(default_factory=dict)
    """Fields that an empty body stands for."""
    large: bool = False
    """True if the body lists partitions: it may be as long as a plan."""

    @property
    def parameters(self) -> Mapping[str, str]:
        """The fields by the names of the query parameters."""
        return dict(zip(self.query, self.query, strict=True)) | (
            {"ids": self.ids} if self.ids else {}
        )


class Request(
    Struct,
    Generic[A_co],
    frozen=True,
    kw_only=True,
    forbid_unknown_fields=True,
    omit_defaults=True,
):
    """The request of a capability, answered with an `A_co`.

    An older node refuses a field that it does not know. So one that has its default is not sent.
    """

    NAME: ClassVar[str]
    """The name of the capability on the wire and in the reference."""
    NEEDS: ClassVar[Needs]
    """The right that it needs."""
    NEEDS_OF_DRY_RUN: ClassVar[Needs | None] = DESCRIBE_CLUSTER
    """The right that a dry run needs: it shows what a reader may see anyway. None: that of the
    change, as for Kafka's own request."""
    CHANGES: ClassVar[bool] = False
    """True if it changes the cluster."""
    ROUTES: ClassVar[tuple[Route, ...]] = ()
    ASKS_WHO_LEADS: ClassVar[bool] = False
    """True if the absence of a leader is an answer, once it lasts longer than an election."""
    LOCAL: ClassVar[bool] = False
    """True if the node that is asked always answers from its own state."""
    STALE_WITHOUT_LEADER: ClassVar[bool] = False
    """True if, while no controller is active, the controller that is asked answers itself."""
    STALE: ClassVar[bool] = True
    """True if a client may ask any node for a stale answer, if it changes nothing."""
    ERRORS: ClassVar[tuple[Error | ErrorCode, ...]] = ()
    """Errors that refuse the request as a whole, besides INVALID_REQUEST."""
    STATUS_COMMAND: ClassVar[str | None] = None
    """The command that shows whether a change was made, when its answer was lost."""
    DONE_BEFORE: ClassVar[int | None] = None
    """The error of a repeated attempt that means that an earlier one succeeded."""
    KEYED: ClassVar[bool] = True
    """True if a change without a `key` gets a new one, so that a retry is not carried out twice."""
    HAS_PASSWORD: ClassVar[bool] = False
    """True if it may have a password, which must not be sent."""
    FAILING: ClassVar[str]
    """The beginning of the sentence that says that the request failed; {0} is the request."""

    async def answer(self, context: "Context") -> A_co:
        """Carry out the request on the active controller, or on this node if it may be stale.

        Raises `RequestRefused`.
        """
        raise NotImplementedError

    def contradiction(self) -> str | None:
        """Return why the request is wrong in itself, or None."""
        return None

    @classmethod
    def can_contradict(cls) -> bool:
        """Return False if no request of this kind is wrong in itself once its fields are typed."""
        return "key" in cls.__struct_fields__ or cls.contradiction is not Request.contradiction

    @classmethod
    def parameters(cls, route: Route) -> Mapping[str, str]:
        """The fields of a request on this route by the names of the query parameters."""
        return route.parameters

    @classmethod
    def in_body(cls, route: Route) -> tuple[str, ...]:
        """The fields of a request on this route that its JSON body may have, in their order."""
        elsewhere = {
            "key",
            route.id,
            *cls.parameters(route).values(),
            *route.fixed,
            *route.excluded,
        }
        return tuple([name for name in cls.__struct_fields__ if name not in elsewhere])

    @classmethod
    def possible_needs(cls) -> tuple[Needs, ...]:
        """The rights of which each request of this kind needs one."""
        has_dry_run = cls.CHANGES and "dry_run" in cls.__struct_fields__
        of_dry_run = cls.NEEDS_OF_DRY_RUN if has_dry_run else None
        return (cls.NEEDS,) if of_dry_run is None else (cls.NEEDS, of_dry_run)

    @classmethod
    def may_be_stale(cls) -> bool:
        """True if a stale answer may be asked for."""
        return cls.STALE and not cls.CHANGES

    def command(self, who: str = "") -> "commands.Command | None":
        """Return the command of the principal `who` for this request; None if it has none, or
        one that takes more than the request."""
        return None

    def wanted(self, resource: str) -> str:
        """Return what the request wants of a resource, for a line about its refusal."""
        command = self.command()
        if command is None:
            return ""
        # Only a node asks, and clients would wait for what it imports.
        from controller.audited_actions import wanted

        return wanted(command, resource)

    def failing(self) -> str:
        """The beginning of the sentence that says that the request failed."""
        return self.FAILING.format(self)

    def without_password(self) -> Self:
        """The request with what is derived from its password in place of it; takes a while."""
        return self

    def only_reads(self) -> bool:
        """True if this request changes nothing: a dry run, for one."""
        return not self.CHANGES or getattr(self, "dry_run", False)

    def needs(self) -> Needs:
        """The right that this request needs."""
        of_dry_run = self.NEEDS_OF_DRY_RUN
        is_dry_run = self.CHANGES and self.only_reads()
        return of_dry_run if is_dry_run and of_dry_run is not None else self.NEEDS


class Answer(Struct, frozen=True, kw_only=True):
    """The answer of a capability; its fields are named as in JSON.

    A field that a later release adds has a default: a node of the release before does not send it.
    """


class Result(Answer, frozen=True, kw_only=True):
    """The result for one part of a request."""

    kafka_error: str = Error.NONE.name
    kafka_error_code: Annotated[int, Meta(description="0 for success")] = Error.NONE.code
    message: str | None = None

    @classmethod
    def of(cls, answered: Any, **fields: Any) -> Self:
        """Return the result that an answer of the state machine stands for."""
        error: Error = answered.error
        message = answered.message or None
        return cls(kafka_error=error.name, kafka_error_code=error.code, message=message, **fields)


class Partition(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A partition that a request names."""

    topic: Annotated[str, Meta(min_length=1)]
    partition: PartitionNumber


R = TypeVar("R", bound=Request[Any])


class Context(Struct, frozen=True, kw_only=True):
    """The node that answers a request, and for whom."""

    service: "Service"
    principal: KafkaPrincipal
    """The sender of the request."""
    client_id: str
    stale: bool = False
    """True if this node may answer from its own state."""
    timeout_ms: int
    """The time that the client waits."""

    @property
    def who(self) -> str:
        """The principal as text."""
        return str(self.principal)

    @property
    def mutation_client(self) -> "commands.MutationClient":
        """The client whose quota of controller mutations the request uses."""
        return commands.MutationClient(user=self.principal.name, client_id=self.client_id)

    async def read(self, reading: "Callable[[Image], T | Refusal]") -> T:
        """Return what `reading` finds in the image; raises `RequestRefused` for a refusal."""
        return unless_refused((await self.service.read(reading, stale=self.stale)).value)

    async def read_long(self, reading: "Callable[[Image], Slices[T | Refusal]]") -> T:
        """Return what `reading` finds in the image, in slices: it may take long.

        Raises `RequestRefused` for a refusal.
        """
        return unless_refused((await self.service.read_long(reading, stale=self.stale)).value)


def twice(brokers: Sequence[int]) -> str | None:
    """Return the reason to refuse a list that names a broker twice, or None."""
    return "a broker is named twice; name each once" if len(set(brokers)) < len(brokers) else None


def names_of(what: str, ids: Collection[int]) -> str:
    """Name brokers or moves in a sentence."""
    return f"{what}{'s' if len(ids) > 1 else ''} {', '.join(map(str, ids))}"


def with_key(request: R) -> R:
    """The request with an idempotency key, its own or a new one, if it needs one."""
    has_key = getattr(request, "key", None) == ""
    if not has_key or request.only_reads() or not request.KEYED:
        return request
    return msgspec.structs.replace(request, key=new_key())


async def prepared(request: R) -> R:
    """The request as it is sent: with an idempotency key if it needs one, without a password."""
    if request.HAS_PASSWORD:
        request = await asyncio.to_thread(request.without_password)
    return with_key(request)


def check(request: Request[Any]) -> None:
    """Raise `Refused` for a request that is wrong in itself."""
    key: str = getattr(request, "key", "")
    wrong = (wrong_key(key) if key else None) or request.contradiction()
    if wrong is not None:
        raise Refused(request.failing(), Error.INVALID_REQUEST.code, wrong)


def refused(error: Error, reason: str) -> RequestRefused:
    """The error that refuses a request as a whole."""
    return RequestRefused(error.code, reason)


def check_part(result: commands.Result, throttle_time: timedelta = timedelta(0)) -> None:
    """Raise the refusal of the only part of a request, which may be to wait for so long."""
    if result.error is not Error.NONE:
        throttle_ms = throttle_time // timedelta(milliseconds=1)
        raise RequestRefused(result.error.code, result.message, throttle_ms=throttle_ms)


def unless_refused(found: T | Refusal) -> T:
    """Return what was found; raises `RequestRefused` for a refusal."""
    if isinstance(found, Refusal):
        raise refused(found.error, found.message)
    return found


# To look at its bases takes as long as to decode a short answer.
@cache
def answer_type(kind: type[Request[A]]) -> type[A]:
    """The type of the answer to requests of this kind."""
    bases = kind.__orig_bases__  # type: ignore[attr-defined]
    found: type[A] = next(args[0] for base in bases if (args := get_args(base)))
    return found


def json_of(answer: Struct) -> dict[str, Any]:
    """The plain values of an answer, without `repeated`, which HTTP has in a header."""
    data: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(answer))
    data.pop(REPEATED_FIELD, None)
    return data


def encode(value: Struct) -> bytes:
    """The bytes of a request or an answer on the private request."""
    return _ENCODER.encode(value)


def decode_answer(kind: type[Request[A]], body: bytes) -> A:
    """The answer to a request of this kind; raises msgspec's errors."""
    answer: A = msgspec.msgpack.decode(body, type=answer_type(kind))
    return answer


_ENCODER: Final = msgspec.msgpack.Encoder()
