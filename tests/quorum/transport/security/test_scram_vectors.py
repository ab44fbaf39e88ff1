"""SCRAM computes what the RFCs print."""

import base64

from quorum.transport.security.credentials import (
    CredentialsInMemory,
    ScramMechanism,
)
from quorum.transport.security.scram import (
    ScramClient,
    ScramClientConversation,
    ScramServer,
    credential_of,
)
from quorum.transport.security.secret import Secret

# RFC 7677, section 3.
NONCE = "rOprNGfwEbeRWgbNEkqO"
SERVER_FIRST = (
    "r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"
)
CLIENT_FINAL = (
    "c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,"
    "p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
)
SERVER_FINAL = "v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="


async def test_the_client_of_rfc_7677() -> None:
    conversation = ScramClientConversation(
        ScramClient(ScramMechanism.SHA_256, "user", Secret("pencil"))
    )
    conversation._nonce = NONCE
    conversation._bare = f"n=user,r={NONCE}"
    assert await conversation.first() == f"n,,n=user,r={NONCE}".encode()
    assert await conversation.answer(SERVER_FIRST.encode()) == CLIENT_FINAL.encode()
    assert await conversation.answer(SERVER_FINAL.encode()) is None


async def test_names_with_commas_and_equals_signs_travel() -> None:
    name, password = "a=b,c", "p,=q"
    for mechanism in ScramMechanism:
        credential = credential_of(mechanism, password, b"salt")
        server = ScramServer(
            mechanism,
            CredentialsInMemory({(name, mechanism.number): credential}),
            wall_clock=lambda: 0,
        ).begin()
        client = ScramClient(mechanism, name, Secret(password)).begin()
        challenge = await server.answer(await client.first())
        proof = await client.answer(challenge)
        assert proof is not None
        assert await client.answer(await server.answer(proof)) is None
        assert server.authenticated is not None
        assert server.authenticated.principal.name == name


async def test_an_unknown_user_gets_the_same_salt_each_time() -> None:
    server = ScramServer(ScramMechanism.SHA_256, CredentialsInMemory({}), wall_clock=lambda: 0)
    salts = set()
    for _ in range(2):
        challenge = (await server.begin().answer(b"n,,n=nobody,r=abc")).decode()
        salts.add(challenge.split(",")[1])
    assert len(salts) == 1
    assert base64.b64decode(salts.pop()[2:])
