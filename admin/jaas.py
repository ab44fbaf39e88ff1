"""The login modules of `sasl.jaas.config`, in the syntax of Java's JAAS files.

One entry: the class of a login module, a control flag, options as `name="value"`, and a semicolon.
No error shows a value, because the passwords are among them.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from quorum.transport.security.secret import Secret

MODULES: Final = {
    "org.apache.kafka.common.security.plain.PlainLoginModule": ("PLAIN",),
    "org.apache.kafka.common.security.scram.ScramLoginModule": ("SCRAM-SHA-256", "SCRAM-SHA-512"),
    "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule": ("OAUTHBEARER",),
}
"""The login modules that are understood, and the mechanisms of each."""

_FLAGS: Final = ("required", "requisite", "sufficient", "optional")
_HEAD: Final = re.compile(r"\s*([A-Za-z_$][\w.$]*)\s+([A-Za-z]+)")
_OPTION: Final = re.compile(
    r"\s*([\w.\-$]+)\s*=\s*(?:\"((?:[^\"\\]|\\.)*)\"|'((?:[^'\\]|\\.)*)'|([^\s;\"']+))"
)
_END: Final = re.compile(r"\s*;\s*")


class InvalidJaas(ValueError):
    """A text that is no entry of a login module; the message shows none of its values."""


@dataclass(frozen=True, slots=True)
class LoginModule:
    """A login module and its options; all values are kept as secrets."""

    name: str
    options: Mapping[str, Secret]

    @property
    def mechanisms(self) -> tuple[str, ...]:
        return MODULES[self.name]

    def text(self, option: str) -> str | None:
        """Return the value of an option that is no secret, such as the user name."""
        found = self.options.get(option)
        return None if found is None else found.reveal()

    @property
    def has_delegation_token(self) -> bool:
        """True if user and password are the id and the HMAC of a delegation token (KIP-48)."""
        return (self.text("tokenauth") or "").lower() == "true"


def parse_jaas(text: str) -> LoginModule:
    """Parse the value of `sasl.jaas.config`; raises `InvalidJaas`."""
    head = _HEAD.match(text)
    if head is None:
        raise InvalidJaas('it does not begin like `...LoginModule required username="..."`')
    name, flag = head.groups()
    if name not in MODULES:
        known = ", ".join(MODULES)
        raise InvalidJaas(f"the login module {name} is not supported; there are {known}")
    if flag.lower() not in _FLAGS:
        raise InvalidJaas(f"after the login module stands {flag!r}, not `required`")
    options: dict[str, Secret] = {}
    at = head.end()
    while (found := _OPTION.match(text, at)) is not None:
        option, double, single, plain = found.groups()
        quoted = double if double is not None else single
        value = plain if quoted is None else re.sub(r"\\(.)", r"\1", quoted)
        options[option] = Secret(value)
        at = found.end()
    end = _END.match(text, at)
    if end is None:
        after = f"after the option {list(options)[-1]}" if options else f"after {flag}"
        raise InvalidJaas(f'{after} stands neither name="value" nor the semicolon that ends it')
    if end.end() != len(text):
        raise InvalidJaas("it has more than one login module")
    return LoginModule(name, options)
