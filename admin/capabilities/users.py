"""Users that authenticate with SCRAM: list, set and delete their credentials (KIP-554).

A password is in no log, in no answer, and in no request between nodes: what is derived from it is
sent in its place, as Kafka's clients do.
"""

import secrets
from typing import Annotated, Final, Literal, Self

from msgspec import Meta
from msgspec.structs import replace

from admin.capabilities.needs import ALTER_SECURITY, DESCRIBE_CLUSTER
from admin.capabilities.paging import Page, PageRequest
from admin.capabilities.schema import (
    Answer,
    Context,
    Request,
    Route,
    check_part,
    refused,
)
from controller.apis.security import credential_of
from quorum.transport.security.scram import MECHANISMS, SALT_BYTES, salted_password
from statemachine.commands import AlterUserScramCredentials, ScramCredentialsAltered
from statemachine.errors import Error
from statemachine.image.image import Image
from statemachine.limits import SCRAM_NAME_BYTES_MAX, SCRAM_SALT_BYTES_MAX
from statemachine.records.kafka_records import RemoveUserScramCredential
from statemachine.security.scram import (
    ITERATIONS_MAX,
    ITERATIONS_MIN,
    credentials_of,
    users_with_credentials,
)
from statemachine.slices import SORTED_US, Slices

BASE: Final = "/v1/users"
PASSWORD_CHARACTERS_MAX: Final = 1_024

UserName = Annotated[
    str, Meta(min_length=1, max_length=SCRAM_NAME_BYTES_MAX, description="Name of a user")
]
Mechanism = Literal["SCRAM-SHA-256", "SCRAM-SHA-512"]
DEFAULT_MECHANISM: Final[Mechanism] = "SCRAM-SHA-512"


class Credential(Answer, frozen=True, kw_only=True):
    """A credential of a user, without its secrets."""

    mechanism: str
    iterations: Annotated[int, Meta(description="The rounds that a guess of the password costs")]


class User(Answer, frozen=True, kw_only=True):
    """A user and its credentials, one for each mechanism."""

    name: str
    credentials: tuple[Credential, ...]


class Users(Page, frozen=True, kw_only=True):
    """Users in the order of their names."""

    users: tuple[User, ...]


class ChangedUser(Answer, frozen=True, kw_only=True):
    """The user, and the mechanism of the credential that was changed."""

    name: str
    mechanism: str


class ListUsers(PageRequest[Users], frozen=True, kw_only=True):
    """List users by name."""

    prefix: Annotated[str, Meta(description="The beginning of the names")] = ""

    NAME = "users.list"
    NEEDS = DESCRIBE_CLUSTER
    ROUTES = (Route("GET", BASE),)
    FAILING = "the users cannot be listed"
    ITEMS = "users"
    POSITION = str

    async def answer(self, context: Context) -> Users:
        return await context.read_long(self._page)

    def _page(self, image: Image) -> Slices[Users]:
        cut = yield from self.cut(
            None if each is None or not each.startswith(self.prefix) else each
            for each in users_with_credentials(image)
        )
        users = []
        for name in cut.shown:
            credentials = [
                Credential(mechanism=_NAMES[each.mechanism], iterations=each.iterations)
                for each in credentials_of(image, name)
            ]
            users.append(User(name=name, credentials=tuple(credentials)))
            yield SORTED_US
        return Users(
            as_of_offset=image.end_offset,
            total=cut.total,
            next_page_token=cut.next_page_token,
            users=tuple(users),
        )


class SetUser(Request[ChangedUser], frozen=True, kw_only=True):
    """Add a user, or change the password of one.

    Give the password, or what a client has derived from it: the salt, and the password salted by
    as many iterations (RFC 5802, `SaltedPassword`), both in base64.
    """

    name: UserName
    mechanism: Mechanism = DEFAULT_MECHANISM
    iterations: Annotated[int, Meta(ge=ITERATIONS_MIN, le=ITERATIONS_MAX)] = ITERATIONS_MIN
    password: Annotated[str, Meta(max_length=PASSWORD_CHARACTERS_MAX)] = ""
    salt: Annotated[bytes, Meta(max_length=SCRAM_SALT_BYTES_MAX)] = b""
    salted_password: bytes = b""

    NAME = "users.set"
    NEEDS = ALTER_SECURITY
    CHANGES = True
    HAS_PASSWORD = True
    ROUTES = (Route("PUT", f"{BASE}/{{id}}", id="name"),)
    ERRORS = (Error.UNACCEPTABLE_CREDENTIAL,)
    STATUS_COMMAND = "metaquorum users list"

    def __repr__(self) -> str:
        return f"SetUser(name={self.name!r}, mechanism={self.mechanism!r})"

    def failing(self) -> str:
        return f"user {self.name} cannot be set"

    def contradiction(self) -> str | None:
        if bool(self.password) == bool(self.salt or self.salted_password):
            return "give a password, or a salt and a salted_password"
        expected = MECHANISMS[self.mechanism].digest_bytes
        if not self.password and (not self.salt or len(self.salted_password) != expected):
            return f"the salted password of {self.mechanism} has {expected} bytes, and a salt"
        return None

    def without_password(self) -> Self:
        if not self.password:
            return self
        salt, mechanism = secrets.token_bytes(SALT_BYTES), MECHANISMS[self.mechanism]
        salted = salted_password(mechanism, self.password, salt, self.iterations)
        return replace(self, password="", salt=salt, salted_password=salted)

    def command(self, who: str = "") -> AlterUserScramCredentials:
        number = MECHANISMS[self.mechanism].number
        credential = credential_of(
            self.name, number, self.salted_password, self.salt, self.iterations
        )
        return AlterUserScramCredentials(upsertions=(credential,))

    async def answer(self, context: Context) -> ChangedUser:
        if self.password:
            raise refused(Error.UNACCEPTABLE_CREDENTIAL, "a password must not be sent; salt it")
        return await _altered(self, context)


class DeleteUser(Request[ChangedUser], frozen=True, kw_only=True):
    """Delete the credential of a user for a mechanism. Open connections stay open."""

    name: UserName
    mechanism: Mechanism = DEFAULT_MECHANISM

    NAME = "users.delete"
    NEEDS = ALTER_SECURITY
    CHANGES = True
    ROUTES = (Route("DELETE", f"{BASE}/{{id}}", id="name", query=("mechanism",)),)
    ERRORS = (Error.RESOURCE_NOT_FOUND,)
    STATUS_COMMAND = "metaquorum users list"
    # It is gone: an earlier attempt, whose answer was lost, has succeeded.
    DONE_BEFORE = Error.RESOURCE_NOT_FOUND.code

    def failing(self) -> str:
        return f"user {self.name} cannot be deleted"

    def command(self, who: str = "") -> AlterUserScramCredentials:
        number = MECHANISMS[self.mechanism].number
        deletion = RemoveUserScramCredential(name=self.name, mechanism=number)
        return AlterUserScramCredentials(deletions=(deletion,))

    async def answer(self, context: Context) -> ChangedUser:
        return await _altered(self, context)


_NAMES: Final = {each.number: name for name, each in MECHANISMS.items()}


async def _altered(request: SetUser | DeleteUser, context: Context) -> ChangedUser:
    command = request.command()
    done = await context.service.carry_out(command, ScramCredentialsAltered, who=context.who)
    check_part(done.users[0])
    return ChangedUser(name=request.name, mechanism=request.mechanism)
