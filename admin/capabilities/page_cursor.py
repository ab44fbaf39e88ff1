"""The cursor of a list whose entries have no name to continue after: the text of `next_after`.

It is the sort key of the last entry of a page, so that the next page can begin after an entry that
is gone.
"""

import binascii
from base64 import urlsafe_b64decode, urlsafe_b64encode
from typing import Any, Final

import msgspec

FOREIGN: Final = "after is not the `next_after` of a page"


def cursor_after(key: tuple[Any, ...]) -> str:
    """The cursor behind the entry with this sort key."""
    return urlsafe_b64encode(msgspec.msgpack.encode(key)).decode()


def key_in(cursor: str, kind: Any) -> Any:
    """The sort key, a tuple of type `kind`; None if the cursor is empty. Raises `ValueError`."""
    if not cursor:
        return None
    try:
        return msgspec.msgpack.decode(urlsafe_b64decode(cursor), type=kind)
    except (binascii.Error, msgspec.MsgspecError, UnicodeError):
        raise ValueError(FOREIGN) from None
