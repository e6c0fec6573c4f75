"""The key that signs sessions, on its way from a gateway to the store."""

from typing import Annotated

from msgspec import Meta

from interlock.wire.request import ChangeRequest

KEY_MEMO = "sign_in_key"  # the memo that holds the key, in hexadecimal digits


class KeepKey(ChangeRequest[str], frozen=True):
    """Keep this key if there is none yet. The answer is the key that is kept."""

    key: Annotated[str, Meta(pattern="^[0-9a-f]{64}$")]
