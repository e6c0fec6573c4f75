"""Requests about the audit."""

from typing import Annotated

import msgspec
from msgspec import Meta

from interlock.wire.message import Count
from interlock.wire.request import ChangeRequest

Text = Annotated[str, Meta(max_length=512)]


class Refusal(msgspec.Struct, frozen=True, array_like=True):
    """Requests over HTTP that were refused to somebody for one reason."""

    reason: Text  # code of the error
    actor: Text  # name of the token, or the address of a client without a known one
    tenant: Text  # empty if it belongs to none
    subject: Text  # method and path of the last of them
    count: Count


class NoteRefusals(ChangeRequest[None], frozen=True):
    """Put refusals into the audit."""

    refusals: Annotated[list[Refusal], Meta(max_length=1000)]
