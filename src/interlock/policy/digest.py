"""Hashes: of a policy without its cases, and of a request."""

import hashlib
from typing import Any

import msgspec

from interlock.model.policy.document import PolicyDocument
from interlock.model.policy.verdict import PolicyRequest


def policy_digest(document: PolicyDocument) -> str:
    return _digest(msgspec.structs.replace(document, cases=()), 8)


def request_hash(request: PolicyRequest) -> str:
    """Return a hash over every field. Payloads with the same values have the same hash, in whatever order they are
    written."""
    try:
        payload: Any = msgspec.json.decode(request.payload)
    except (msgspec.MsgspecError, RecursionError):
        payload = request.payload  # as base64, which no payload that can be read is
    fields = msgspec.structs.asdict(request) | {"payload": payload, "readable": payload is not request.payload}
    return _digest(fields, 32)


def _digest(value: Any, size: int) -> str:
    return hashlib.blake2b(msgspec.json.encode(value, order="sorted"), digest_size=size).hexdigest()
