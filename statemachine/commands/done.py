"""The answer to what is either done or refused. A value only, never behaviour."""

from msgspec import Struct

from statemachine.errors import Error


class Done(Struct, frozen=True, kw_only=True, gc=False):
    """It is done, or was so already; or it is refused as a whole."""

    error: Error = Error.NONE
    message: str = ""
