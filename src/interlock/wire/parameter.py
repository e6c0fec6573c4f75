"""Types of the parameters of operations: HTTP, messages and clients check the same rules."""

from typing import Annotated

from msgspec import Meta

from interlock.fields.field_types import NAME as NAME_FORM
from interlock.model.job import JOB_ID, NAME
from interlock.model.session import LONGEST_SESSION

SESSION_CURSOR = rf"k{NAME_FORM}/[\s\S]{{1,512}}"  # tenant and key

NameText = Annotated[str, Meta(min_length=1, max_length=64, pattern=f"^{NAME.pattern}$")]
JobId = Annotated[str, Meta(min_length=1, max_length=128, pattern=f"^{JOB_ID.pattern}$")]
FilterText = Annotated[str, Meta(max_length=256)]
SessionText = Annotated[str, Meta(max_length=LONGEST_SESSION)]
Reason = Annotated[str, Meta(max_length=1000)]


def text(description: str, pattern: str) -> Meta:
    """Describe a text whose form is checked with a clearer error than a pattern gives."""
    return Meta(description=description, extra_json_schema={"pattern": pattern})


def cursor_form(pattern: str) -> Meta:
    return text("`next` of the page before; leave it out for the first page.", f"^{pattern}$")
