"""An issuer of tokens for OAUTHBEARER."""

import json
from typing import Any

import jwt
from cryptography.hazmat.primitives.asymmetric import ec

from quorum.clocks import wall_ms


class Issuer:
    """Signs tokens with one key, and says which it is."""

    def __init__(self, key_id: str = "key-1") -> None:
        self.key_id = key_id
        self.key = ec.generate_private_key(ec.SECP256R1())

    @property
    def jwks(self) -> str:
        return self.jwks_for("sig")

    def jwks_for(self, use: str) -> str:
        public = jwt.algorithms.ECAlgorithm.to_jwk(self.key.public_key(), as_dict=True)
        return json.dumps({"keys": [{**public, "kid": self.key_id, "alg": "ES256", "use": use}]})

    def token(self, *, without: str = "", **claims: Any) -> str:
        now = wall_ms() / 1_000
        found = {
            "sub": "alice",
            "iat": now - 1,
            "exp": now + 60,
            "aud": "kafka",
            "iss": "issuer",
            **claims,
        }
        found.pop(without, None)
        return jwt.encode(found, self.key, "ES256", headers={"kid": self.key_id})
