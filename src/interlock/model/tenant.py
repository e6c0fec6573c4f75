"""A tenant as it is declared and shown: limits of its runs in a shared scheduler."""

from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Annotated, Literal, TypedDict

import msgspec

from interlock.error import BadUse
from interlock.fields.field import Checked, doc
from interlock.fields.field_types import WORD, Rate, Texts
from interlock.model.job import Tags
from interlock.model.labels import LABELS
from interlock.model.lane import LIMIT

EVERYBODY = "*"  # id of the document for all tenants without one of their own


class OverLimit(StrEnum):
    WAIT = "wait"
    REFUSE = "refuse"


class TenantSpec(Checked, frozen=True, kw_only=True):
    max_running: Annotated[int | None, doc("Its runs that may hold a slot at once."), LIMIT] = None
    max_waiting: Annotated[
        int | None, doc("Its runs that may wait; a submit beyond it is refused with `tenant_limit`."), LIMIT
    ] = None
    rate: Annotated[
        float | None,
        doc("Maximum rate of starts, such as `10/s`; with `over_limit: refuse`, of submitted runs."),
        Rate(),
    ] = None
    burst: Annotated[int | None, doc("Runs allowed at once after an idle period; default 1."), LIMIT] = None
    over_limit: Annotated[
        OverLimit,
        doc("Above `rate` and `max_running`, runs `wait`, or a submit is refused with `tenant_limit` (`refuse`)."),
    ] = OverLimit.WAIT
    lanes: Annotated[Tags, doc("Lanes that it may use; default: all."), Texts(WORD, make=tuple)] = ()
    labels: Annotated[
        Mapping[str, str], doc("Labels of its runs; those of the job and of the submit win."), LABELS
    ] = {}

    def check(self) -> None:
        if self.burst is not None and self.rate is None:
            raise BadUse("burst", f"{self.burst} is given without rate; give both, or neither")


class TenantFields(TypedDict, total=False):
    """The limits of a tenant, as a program gives them."""

    max_running: int
    max_waiting: int
    rate: str
    burst: int
    over_limit: Literal["wait", "refuse"]
    lanes: Sequence[str]
    labels: Mapping[str, str]


class TenantInfo(msgspec.Struct, frozen=True, kw_only=True):
    id: Annotated[str, doc("Name; `*` stands for all tenants without a document.")]
    running: Annotated[int, doc("Its runs that hold a slot.")]
    waiting: Annotated[int, doc("Its runs that have not ended and hold no slot.")]
    refused: Annotated[int, doc("Requests refused with `tenant_limit` since the scheduler began.")]
    max_running: Annotated[int | None, doc("Most runs that may hold a slot; null for no limit.")]
    max_waiting: Annotated[int | None, doc("Most runs that may wait; null for no limit.")]
    rate: Annotated[str | None, doc("Maximum rate, such as `10/s`; null for no limit.")]
    burst: Annotated[int, doc("Runs allowed at once after an idle period.")]
    over_limit: Annotated[OverLimit, doc("`wait` or `refuse`.")]
    lanes: Annotated[list[str], doc("Lanes that it may use; empty for all.")]
    labels: Annotated[dict[str, str], doc("Labels of its runs.")]


class TenantList(msgspec.Struct, frozen=True, kw_only=True):
    tenants: Annotated[
        list[TenantInfo],
        doc("Every declared tenant that the caller sees, and those that have runs under the limits of `*`."),
    ]
