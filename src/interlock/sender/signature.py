"""Signatures of requests, as Standard Webhooks describes them (https://www.standardwebhooks.com)."""

import hmac
from base64 import b64decode, b64encode

PREFIX = "whsec_"


def signed_headers(id: str, now: float, body: bytes, secret: str | None) -> dict[str, str]:
    """Return the headers with id, time and, if a secret is given, signature. Raise `ValueError` for a secret that
    begins with `whsec_` and is not base64."""
    headers = {"webhook-id": id, "webhook-timestamp": str(int(now))}
    if secret is not None:
        content = f"{id}.{int(now)}.".encode() + body
        digest = hmac.digest(_key(secret), content, "sha256")
        headers["webhook-signature"] = f"v1,{b64encode(digest).decode()}"
    return headers


def _key(secret: str) -> bytes:
    if not secret.startswith(PREFIX):
        return secret.encode()
    text = secret.removeprefix(PREFIX)
    return b64decode(text + "=" * (-len(text) % 4), validate=True)
