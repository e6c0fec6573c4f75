"""What a handler may say of its progress."""

import math
from typing import Any

import pytest

from interlock.error import BadValue
from interlock.wire.message import Progress
from tests.core.test_redaction import context_of


@pytest.mark.behaviour("RUN-20")
@pytest.mark.parametrize(
    ("given", "told"),
    [(100.00000000000001, 100.0), (10**400, 100.0), (math.inf, 100.0), (-1e-9, 0.0), (0, 0.0), (33.5, 33.5)],
)
def test_progress_that_is_off_by_a_rounding_is_kept_within_its_bounds(given: float, told: float) -> None:
    context, sent = context_of(b"{}")
    context.progress(given)
    assert [one.percent for one in sent if isinstance(one, Progress)] == [told]


@pytest.mark.behaviour("RUN-20")
@pytest.mark.parametrize("given", [math.nan, True, "50", None])
def test_progress_that_is_no_number_is_refused(given: Any) -> None:
    context, sent = context_of(b"{}")
    with pytest.raises(BadValue, match=r"percent: .* is not a number from 0 to 100"):
        context.progress(given)
    assert sent == []
