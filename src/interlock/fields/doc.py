"""The meaning of a field, declared with its type: OpenAPI, the JSON Schemas and the reference are made from it."""

from typing import Any

from msgspec import Meta


def doc(meaning: str, **limits: Any) -> Meta:
    return Meta(description=meaning, **limits)
