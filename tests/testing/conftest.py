"""The proof that no test leaves a task or an exception behind."""

import gc
import logging
from collections.abc import Iterator

import pytest


@pytest.fixture(autouse=True)
def nothing_is_left(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    gc.freeze()  # what an earlier test left is not this one's
    yield
    gc.collect()
    found = [record for when in ("call", "teardown") for record in caplog.get_records(when)]
    assert [one.getMessage() for one in found if one.name == "asyncio" and one.levelno >= logging.ERROR] == []
