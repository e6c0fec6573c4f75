"""The HTTP operation on the audit, a part of the table in `operations.py`."""

from interlock.interface import queries as q
from interlock.interface.operation import API, Operation
from interlock.model.access import Permission
from interlock.model.audit import AuditPage

audit = Operation(
    f"GET {API}/audit",
    "List the audit. Entries, oldest first; with `last`, the newest ones that match. A page may be short although more "
    "follow: go on while `next` is not null. A token of one tenant sees the entries of that tenant alone. To verify "
    "the chain, read all entries, and compare the last with `head`.",
    AuditPage,
    query=q.AuditQuery,
    permission=Permission.AUDIT,
    name="audit",
)
