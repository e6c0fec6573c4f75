"""Bulk requests in memory."""

import msgspec

from interlock.model.bulk import BulkRequest
from interlock.model.run import Run


class Bulks(msgspec.Struct):
    requests: dict[str, BulkRequest] = {}  # oldest first; includes finished ones, to recognise a repeat
    walks: dict[str, list[Run]] = {}
    """request under way → runs not yet looked at, the next one last; a retry reads them from the store"""
    is_unread: bool = False  # whether retries wait because a page could not be read
