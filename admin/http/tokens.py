"""The bearer tokens of the HTTP listener: a file with one JSON object a line.

    {"name":"ci","sha256":"9f86d0...","role":"operator","principal":"User:ci"}

The file has only the hash of a token. A token is 32 random bytes, so a fast hash cannot be
searched, and the file needs no secrecy; but who can write it can give itself any role.
"""

import hashlib
import hmac
import logging
import os
import secrets
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Final

import msgspec
from msgspec import Meta, Struct

from admin.capabilities.needs import Role
from quorum.log_events import LogEvent
from quorum.version import VERSION

logger = logging.getLogger("http")

FILE_BYTES_MAX: Final = 1024 * 1024
TOKENS_MAX: Final = 1_000
"""Every token is compared with every line."""
SECRET_BYTES: Final = 32
PREFIX: Final = "mq_"
"""Shows what a leaked token is, to people and to scanners."""

TokenName = Annotated[str, Meta(pattern=r"^[A-Za-z0-9._-]{1,64}\Z")]


class InvalidTokens(ValueError):
    """A token file cannot be read or extended; the message names the file, and never a secret."""


class Token(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A token: who presents it, and what it may do."""

    name: TokenName
    sha256: Annotated[str, Meta(pattern=r"^[0-9a-f]{64}\Z")]
    role: Role
    principal: Annotated[str, Meta(pattern=r"^User:[^\x00-\x1f\x7f]{1,255}\Z")]


class TokenFile:
    """The tokens of a file, read again when it changes.

    An invalid line, or a file that cannot be read, lets nobody in: the tokens in it are not valid
    until it is repaired.
    """

    def __init__(self, path: Path) -> None:
        """Raises `InvalidTokens`."""
        self._path = path
        self._seen = _stamp(path)
        self._tokens, invalid = read(path)
        if invalid:
            raise InvalidTokens(invalid[0])

    def find(self, secret: str) -> Token | None:
        """Return the token of a secret, or None."""
        self._refresh()
        presented = _hash(secret)
        found = None
        for token in self._tokens:
            # All of them, and each in constant time: the time of the search tells nothing.
            if hmac.compare_digest(token.sha256, presented):
                found = token
        return found

    def _refresh(self) -> None:
        stamp = _stamp(self._path)
        if stamp == self._seen:
            return
        self._seen = stamp
        try:
            self._tokens, invalid = read(self._path)
        except InvalidTokens as error:
            self._tokens, invalid = (), [f"{error}; no token is valid until it can be read"]
        for each in invalid:
            logger.error("http.tokens.file: %s", each, extra=LogEvent.TOKENS_INVALID.extra)
        logger.info(
            "http.tokens.file: %s has %d valid tokens",
            self._path,
            len(self._tokens),
            extra=LogEvent.TOKENS_LOADED.extra,
        )


def read(path: Path) -> tuple[tuple[Token, ...], Sequence[str]]:
    """Return the tokens of a file, and what is wrong with its other lines; raises `InvalidTokens`.

    The messages have no part of a line: someone may have written a token into it.
    """
    tokens: dict[str, Token] = {}
    invalid: list[str] = []
    for number, line in enumerate(_lines(path), start=1):
        if not line.strip():
            continue
        where = f"{path}:{number}"
        try:
            token = msgspec.json.decode(line, type=Token)
        except (msgspec.DecodeError, UnicodeDecodeError):
            invalid.append(
                f"{where} is no token that metaquorum {VERSION} can read; `metaquorum http-tokens "
                "create` writes one"
            )
            continue
        if token.name in tokens:
            invalid.append(f"{where}: there is a token {token.name} above; give each a name")
        elif len(tokens) >= TOKENS_MAX:
            invalid.append(f"{where}: at most {TOKENS_MAX} tokens are allowed")
        else:
            tokens[token.name] = token
    return tuple(tokens.values()), invalid


def create(path: Path, name: str, role: Role, principal: str) -> str:
    """Append a new token to a file, which may not exist yet, and return its secret.

    Raises `InvalidTokens`. The secret is stored nowhere.
    """
    secret = PREFIX + secrets.token_urlsafe(SECRET_BYTES)
    token = {"name": name, "sha256": _hash(secret), "role": role, "principal": principal}
    try:
        msgspec.convert(token, Token)
    except msgspec.ValidationError as error:
        field = str(error).rpartition("$.")[2].rstrip("`") or "token"
        rule = {
            "name": "1 to 64 letters, digits, '.', '_' and '-'",
            "principal": "User: and a name, like User:ci",
        }
        raise InvalidTokens(f"the {field} is invalid: {rule.get(field, error)}") from None
    there, _ = read(path) if path.exists() else ((), ())
    if any(each.name == name for each in there):
        raise InvalidTokens(f"{path} has a token {name}; choose another name, or delete its line")
    if len(there) >= TOKENS_MAX:
        raise InvalidTokens(f"{path} has {TOKENS_MAX} tokens, and no more are allowed")
    try:
        _append(path, msgspec.json.encode(token))
    except OSError as error:
        raise InvalidTokens(f"{path} cannot be written: {error.strerror}") from None
    return secret


def _append(path: Path, line: bytes) -> None:
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o600)
    try:
        size = os.fstat(descriptor).st_size
        is_open_line = size > 0 and os.pread(descriptor, 1, size - 1) != b"\n"
        os.write(descriptor, (b"\n" if is_open_line else b"") + line + b"\n")
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _lines(path: Path) -> list[bytes]:
    try:
        with path.open("rb") as file:
            content = file.read(FILE_BYTES_MAX + 1)
    except OSError as error:
        raise InvalidTokens(f"{path} cannot be read: {error.strerror}") from None
    if len(content) > FILE_BYTES_MAX:
        raise InvalidTokens(f"{path} is larger than {FILE_BYTES_MAX} bytes")
    return content.splitlines()


def _hash(secret: str) -> str:
    return hashlib.sha256(secret.encode(errors="surrogateescape")).hexdigest()


def _stamp(path: Path) -> object:
    """A value that changes with the file."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns
