"""The changes that a reload of the files made."""

from collections.abc import Mapping
from typing import Annotated

import msgspec

from interlock.fields.field import doc


class Difference(msgspec.Struct, frozen=True, kw_only=True):
    """Names of one kind of thing, by what happened to them."""

    added: Annotated[list[str], doc("New.")] = []
    changed: Annotated[list[str], doc("Defined differently; services were restarted.")] = []
    removed: Annotated[list[str], doc("Removed; services were stopped.")] = []
    unchanged: Annotated[list[str], doc("Left as they are.")] = []

    @classmethod
    def between(cls, before: Mapping[str, object], after: Mapping[str, object]) -> "Difference":
        return cls(
            added=[name for name in after if name not in before],
            changed=[name for name in after if name in before and after[name] != before[name]],
            removed=[name for name in before if name not in after],
            unchanged=[name for name in after if name in before and after[name] == before[name]],
        )


class Reloaded(msgspec.Struct, frozen=True, kw_only=True):
    jobs: Annotated[Difference, doc("Changes of jobs.")]
    services: Annotated[Difference, doc("Changes of services and their groups.")]
    policy: Annotated[Difference, doc("Changes of the policy, by its name.")] = Difference()
