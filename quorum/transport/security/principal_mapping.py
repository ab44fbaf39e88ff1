"""The principal of a certificate: its subject as Java writes it, mapped by Kafka's rules.

`ssl.principal.mapping.rules` is a list of `DEFAULT` or `RULE:pattern/replacement/[LU]`; the first
pattern that matches the whole subject decides, and a subject that no rule matches is refused.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from cryptography.x509 import Certificate, NameAttribute

_KEYWORDS: Final = {
    "2.5.4.3": "CN",
    "2.5.4.7": "L",
    "2.5.4.8": "ST",
    "2.5.4.10": "O",
    "2.5.4.11": "OU",
    "2.5.4.6": "C",
    "2.5.4.9": "STREET",
    "0.9.2342.19200300.100.1.25": "DC",
    "0.9.2342.19200300.100.1.1": "UID",
}
"""The attribute types that RFC 2253 names; Java writes others as their OID and the DER in hex."""

_SPECIAL: Final = re.compile(r'([,+"\\<>;=])')

_RULE: Final = re.compile(
    r"\s*(DEFAULT|RULE:((?:\\.|[^\\/])*)/((?:\\.|[^\\/])*)/([LU]?))\s*(?:,|$)"
)
_REPLACED: Final = re.compile(r"\\(.)|\$(\d)")
_LONG_LENGTH: Final = 0x80


class InvalidRules(ValueError):
    """A text that is no list of rules; the message says where it goes wrong."""


class NoRuleMatches(Exception):
    """A subject that no rule maps to a name; its connection is refused."""


@dataclass(frozen=True, slots=True)
class Rule:
    """One rule; without a pattern, the subject itself is the name."""

    pattern: re.Pattern[str] | None = None
    replacement: str = ""
    case: str = ""

    def apply(self, subject: str) -> str | None:
        """Return the name that the rule makes of a subject, or None if it does not match."""
        if self.pattern is None:
            return subject
        found = self.pattern.fullmatch(subject)
        if found is None:
            return None
        name = _REPLACED.sub(lambda part: _piece(part, found), self.replacement)
        return name.lower() if self.case == "L" else name.upper() if self.case == "U" else name


def _piece(part: re.Match[str], found: re.Match[str]) -> str:
    """Return a part of a replacement: `$1` is a group if the pattern has it, `\\x` is x."""
    if part[1] is not None:
        return str(part[1])
    number = int(part[2])
    return (found[number] or "") if number <= found.re.groups else str(part[0])


def parse_rules(text: str) -> tuple[Rule, ...]:
    """Parse the value of `ssl.principal.mapping.rules`; raises `InvalidRules`."""
    rules: list[Rule] = []
    at = 0
    while at < len(text):
        found = _RULE.match(text, at)
        if found is None:
            raise InvalidRules(
                f"{text[at:]!r} is neither DEFAULT nor RULE:pattern/replacement/ with L, U or "
                "nothing after it"
            )
        at = found.end()
        rules.append(_rule(found))
    return tuple(rules) or (Rule(),)


def _rule(found: re.Match[str]) -> Rule:
    if found[1] == "DEFAULT":
        return Rule()
    try:
        pattern = re.compile(found[2])
    except re.error as error:
        raise InvalidRules(f"{found[2]!r} is not a regular expression: {error}") from None
    return Rule(pattern, found[3], found[4])


def map_subject(rules: Sequence[Rule], subject: str) -> str:
    """Return the name of a subject; raises `NoRuleMatches`."""
    for rule in rules:
        name = rule.apply(subject)
        if name is not None:
            return name
    raise NoRuleMatches(f"no rule of ssl.principal.mapping.rules matches {subject!r}")


def subject_of(certificate: bytes) -> str:
    """Return the subject of a DER certificate in RFC 2253's form, the last attribute first."""
    # Only a node whose clients have certificates needs it.
    from cryptography import x509

    return subject_of_certificate(x509.load_der_x509_certificate(certificate))


def subject_of_certificate(certificate: "Certificate") -> str:
    """Return the subject of a certificate as `subject_of` does."""
    rdns = reversed(list(certificate.subject.rdns))
    return ",".join("+".join(map(_attribute, rdn)) for rdn in rdns)


def _attribute(attribute: "NameAttribute[str | bytes]") -> str:
    keyword = _KEYWORDS.get(attribute.oid.dotted_string)
    value = attribute.value
    if keyword is None or isinstance(value, bytes):
        return f"{keyword or attribute.oid.dotted_string}=#{_der_value(attribute).hex()}"
    escaped = _SPECIAL.sub(r"\\\1", value)
    if escaped[:1] in ("#", " "):
        escaped = "\\" + escaped
    if value.endswith(" ") and len(value) > 1:
        escaped = escaped[:-1] + "\\ "
    return f"{keyword}={escaped}"


def _der_value(attribute: "NameAttribute[str | bytes]") -> bytes:
    """Return the DER of the value alone: a name is SEQUENCE, SET, SEQUENCE, OID, value."""
    from cryptography.x509 import Name

    name = Name([attribute]).public_bytes()
    at = 0
    for _ in range(3):
        at = _content(name, at)[0]
    start, length = _content(name, at)
    return name[start + length :]


def _content(der: bytes, at: int) -> tuple[int, int]:
    """Return where the content of the element at `at` begins, and its length."""
    first = der[at + 1]
    if first < _LONG_LENGTH:
        return at + 2, first
    digits = first - _LONG_LENGTH
    return at + 2 + digits, int.from_bytes(der[at + 2 : at + 2 + digits], "big")
