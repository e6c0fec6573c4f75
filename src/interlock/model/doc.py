"""The meaning of a field, declared with its type: OpenAPI, the JSON Schemas and the reference are made from it."""

from msgspec import Meta


def doc(meaning: str) -> Meta:
    return Meta(description=meaning)
