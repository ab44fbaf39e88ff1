"""Remove secrets from texts that leave the machine, such as those of a support bundle.

Two nets: the values of every secret setting that is known, wherever they occur, and the forms in
which secrets are written, whoever wrote them.
"""

import re
from collections.abc import Iterable, Mapping
from typing import Final

from admin.jaas import InvalidJaas, parse_jaas
from quorum.transport.security.secret import HIDDEN

SECRET_CHARACTERS_MIN: Final = 4
"""A shorter value is no secret, and to remove it everywhere would make the text unreadable."""

FRAGMENT_CHARACTERS_MIN: Final = 8
"""A part of a secret, between spaces, quotes and backslashes, that is removed by itself too."""

_SECRET: Final = (
    r"password|passwd|passphrase|\bpwd|secret|api[_-]?key|master\.key|"
    r"(?:access|auth|id|refresh|session)[_-]token"
)
"""The names of secrets, as parts of longer names."""

_FORMS: Final = (
    # A private key in PEM, with line breaks or with those written as \n.
    (
        re.compile(
            r"-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(?:-----END [A-Z ]*PRIVATE KEY-----|\Z)",
            re.DOTALL,
        ),
        HIDDEN,
    ),
    # A line of settings: its value may have spaces without quotes around it.
    (
        re.compile(
            rf"""(?imx) ^ ( [ \t]* [\w.\-]{{0,99}} (?:{_SECRET}) [\w.\-]{{0,99}} [ \t]* = [ \t]* )
            (?!["'\[]) \S .* $"""
        ),
        rf"\1{HIDDEN}",
    ),
    # The options of a login module, JSON, TOML, URIs: everything that is called a password. What
    # precedes the word in its name is not looked at: that would take the square of its length.
    (
        re.compile(
            rf"""(?ix) ( (?: {_SECRET} | \buser_ ) [\w.\-]{{0,99}} ["']? \s* [=:] \s* )
            (?: \\?"(?:[^"\\]|\\.)*\\?" | '(?:[^'\\]|\\.)*' | \[[^\]\n]*\] | [^\s,;"'}}&]+ )"""
        ),
        rf"\1{HIDDEN}",
    ),
    # Headers of HTTP, whatever the scheme; one without quotes to the end of its line.
    (
        re.compile(
            r"""(?ix) \b ( (?: (?:proxy-)? authorization | (?:set-)? cookie ) ["']? [ ]* : [ ]* )
            (?: "(?:[^"\\\n]|\\.)*" | '[^'\n]*' | \S [^\n]* )"""
        ),
        rf"\1{HIDDEN}",
    ),
    # Tokens of HTTP, ours by their prefix, and whatever stands in the header.
    (re.compile(r"\bmq_[A-Za-z0-9_-]{16,}"), HIDDEN),
    (re.compile(r"(?i)\b(bearer|basic)\s+[A-Za-z0-9._~+/=-]{8,}"), rf"\1 {HIDDEN}"),
    # A JSON web token.
    (re.compile(r"\beyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]+\.[A-Za-z0-9_-]*"), HIDDEN),
    # The user and the password of an address.
    (re.compile(r"(\b[a-z][a-z0-9+.-]{0,30}://)[^/\s:@\"']*:[^/\s@\"']+@"), rf"\1{HIDDEN}@"),
)


class Scrubber:
    """Replaces secrets; its `repr` shows none."""

    def __init__(self, secrets: Iterable[str] = ()) -> None:
        """`secrets` are values of secret settings; the passwords within one are secrets too."""
        values = [*secrets]
        whole = {each for value in values for each in (value.strip(), *_secrets_in(value))}
        fragments = {
            part
            for value in values
            for each in _secrets_in(value)
            for part in re.split(r"[\s\"'\\]+", each)
            if len(part) >= FRAGMENT_CHARACTERS_MIN
        }
        found = {each for each in whole if len(each) >= SECRET_CHARACTERS_MIN} | fragments
        # The longest first: a secret may be a part of another one.
        words = sorted(found, key=lambda each: (-len(each), each))
        self._known = re.compile("|".join(map(re.escape, words))) if words else None

    def __repr__(self) -> str:
        return "Scrubber()"

    def scrub(self, text: str) -> str:
        """Return the text with `[hidden]` in place of each secret."""
        if self._known is not None:
            text = self._known.sub(HIDDEN, text)
        for form, shown in _FORMS:
            text = form.sub(shown, text)
        return text

    def scrub_values(self, values: Mapping[str, str]) -> dict[str, str]:
        """Return settings whose values are scrubbed."""
        return {name: self.scrub(value) for name, value in values.items()}


def _secrets_in(value: str) -> Iterable[str]:
    """Yield the secrets in the value of a setting, as they may be written elsewhere."""
    try:
        options = parse_jaas(value).options
    except InvalidJaas:
        # The lines of a key in PEM, without those that begin and end it.
        for line in re.split(r"\\n|\n", value):
            if "-----" not in line:
                yield line.strip()
        return
    for name, secret in options.items():
        # A user's name is no secret: it stands in ACLs and in the log.
        if name != "username":
            yield secret.reveal()
            yield secret.reveal().replace("\\", "\\\\").replace('"', '\\"')
