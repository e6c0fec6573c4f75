"""Every HTTP operation, found in the modules that declare them: the server, OpenAPI and the reference are made from
these."""

from collections.abc import Iterator
from typing import Any

from interlock.interface import (
    job_operations,
    overview_operations,
    record_operations,
    run_operations,
    server_operations,
    sign_in_operations,
)
from interlock.interface.operation import Operation, operations_of
from interlock.wire import (
    approval_request,
    cluster_request,
    delivery_request,
    lane_request,
    policy_request,
    run_request,
    service_request,
    session_request,
    worker_request,
    workflow_request,
)
from interlock.wire.operation import Declared

MODULES = (
    run_operations, run_request, job_operations, workflow_request, lane_request, session_request, worker_request,
    delivery_request, record_operations, approval_request, service_request, cluster_request, server_operations,
    sign_in_operations, overview_operations, policy_request,
)  # fmt: skip
"""modules with requests that are operations"""
GROUPS = (
    "overview", "runs", "jobs", "workflows", "lanes", "tenants", "sessions", "workers", "deliveries", "dead letters",
    "approvals", "policy", "audit", "services", "cluster", "events", "access", "health",
)  # fmt: skip
"""the groups of operations, in the order of the documentation"""


def _declared() -> Iterator[type[Declared[Any]]]:
    for module in MODULES:
        yield from (
            kind
            for kind in vars(module).values()
            if getattr(kind, "__module__", "") == module.__name__ and "http" in vars(kind)
        )


OPERATIONS: tuple[Operation[Any], ...] = tuple(
    sorted(
        (operation for kind in _declared() for operation in operations_of(kind)),
        key=lambda one: GROUPS.index(one.group),
    )
)
