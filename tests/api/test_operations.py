"""Handlers are found by their names: none is missing, none is found by accident, and none is open to readers."""

import asyncio
from functools import partial
from types import SimpleNamespace
from typing import Any

import pytest

from interlock.api.backend import Backend, forward
from interlock.api.call import HttpHandler
from interlock.api.settings import GatewaySettings
from interlock.interface.operation import Operation, operation_of
from interlock.interface.operations import OPERATIONS
from interlock.interface.record_operations import ReadAudit
from interlock.interface.server_operations import ReadDescription, ReadMetrics
from interlock.interface.sign_in_operations import SignIn
from interlock.model.access import Permission
from interlock.stores.memory import MemoryStore
from interlock.wire.operation import API, GatewayRequest


def handlers() -> dict[Any, HttpHandler]:
    async def body() -> dict[Any, HttpHandler]:
        connection: Any = SimpleNamespace()
        return dict(Backend(MemoryStore(), connection, GatewaySettings(), lambda values, job_id: None).handlers)  # type: ignore[arg-type,return-value] # none is called

    return asyncio.run(body())


def test_every_operation_has_a_handler() -> None:
    found = handlers()
    assert set(OPERATIONS) - set(found) == {operation_of(ReadDescription)}, "which the application makes itself"
    forwarded = {one for one, handler in found.items() if isinstance(handler, partial) and handler.func is forward}
    of_scheduler = {one for one in OPERATIONS if not issubclass(one.kind, GatewayRequest)}
    assert forwarded == of_scheduler, "the answer is that of the scheduler"
    for one, handler in found.items():
        assert callable(handler), one.name


@pytest.mark.behaviour("SEC-2")
@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda one: one.name)
def test_what_changes_anything_needs_more_than_to_read(operation: Operation[Any]) -> None:
    if operation.kind is SignIn:
        assert operation.needs is None, "who signs in has nothing to show yet"
    elif operation.method != "GET":
        assert operation.needs not in (None, Permission.READ)
    elif operation.path.startswith(API) or operation.kind is ReadMetrics:
        assert operation.needs is (Permission.AUDIT if operation.kind is ReadAudit else Permission.READ)
    else:
        assert operation.needs is None


def test_names_are_those_in_the_table() -> None:
    names = [one.name for one in OPERATIONS]
    assert "" not in names
    assert len(set(names)) == len(names)
