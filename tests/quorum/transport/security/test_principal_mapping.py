"""Subjects as Java writes them, and Kafka's examples of rules."""

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import serialization
from cryptography.x509.oid import NameOID

from quorum.transport.security.principal_mapping import (
    InvalidRules,
    NoRuleMatches,
    map_subject,
    parse_rules,
    subject_of,
)
from tests.support.pem_authority import Authority, named

DUKE = "CN=Duke,OU=ServiceUsers,O=Org,C=US"


@pytest.mark.parametrize(
    ("rules", "subject", "name"),
    [
        ("DEFAULT", DUKE, DUKE),
        ("", DUKE, DUKE),
        ("RULE:^CN=(.*?),OU=ServiceUsers.*$/$1/", DUKE, "Duke"),
        ("RULE:^CN=(.*?),OU=ServiceUsers.*$/$1@$2/L", DUKE, "duke@$2"),
        ("RULE:^CN=(.*?), *OU=(.*?),.*$/$1@$2/U", DUKE, "DUKE@SERVICEUSERS"),
        ("RULE:^.*[Cc][Nn]=([a-zA-Z0-9.]*).*$/$1/L,DEFAULT", DUKE, "duke"),
        ("RULE:^OU=x$/a/, DEFAULT", DUKE, DUKE),
        ("RULE:^CN=Du\\/ke$/a\\/b/", "CN=Du/ke", "a/b"),
    ],
)
def test_the_first_rule_that_matches_counts(rules: str, subject: str, name: str) -> None:
    assert map_subject(parse_rules(rules), subject) == name


def test_a_rule_matches_the_whole_subject_or_nothing() -> None:
    with pytest.raises(NoRuleMatches, match="no rule of ssl"):
        map_subject(parse_rules("RULE:^CN=(.*?),/$1/"), DUKE)


@pytest.mark.parametrize("rules", ["x", "RULE:a", "RULE:a/b", "RULE:a/b/X", "RULE:(/b/"])
def test_what_is_no_rule_is_refused(rules: str) -> None:
    with pytest.raises(InvalidRules):
        parse_rules(rules)


def test_the_subject_is_written_as_java_writes_it() -> None:
    subject = named(
        (NameOID.COUNTRY_NAME, "US"),
        (NameOID.ORGANIZATION_NAME, 'Org, "with" + <signs>;='),
        (NameOID.EMAIL_ADDRESS, "a@b.c"),
        (NameOID.COMMON_NAME, "#1 "),
    )
    issued = Authority().issue("x", subject=subject)
    certificate = x509.load_pem_x509_certificate(issued.certificate.encode())
    assert subject_of(certificate.public_bytes(serialization.Encoding.DER)) == (
        "CN=\\#1\\ ,1.2.840.113549.1.9.1=#16056140622e63,"
        'O=Org\\, \\"with\\" \\+ \\<signs\\>\\;\\=,C=US'
    )
