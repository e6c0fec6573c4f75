"""A context to call a job's function with, in a test."""

import time
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from interlock.error import BadValue
from interlock.fields import payload
from interlock.fields.duration import Duration, seconds
from interlock.fields.secret import from_json
from interlock.interface.run_view import LogLine
from interlock.model.facets import ProgressInfo
from interlock.model.session import check_key
from interlock.wire.message import CHUNKS, Checkpoint, Dispatch, LogMessage, Message, Progress, Usage
from interlock.wire.parameter import instant
from interlock.worker.context import Context


class RecordedContext(Context):
    """A context without a run, which keeps the reports of a function: made by `testing.context(...)`."""

    def __init__(self, dispatch: Dispatch, state: Any) -> None:
        super().__init__(dispatch, self._keep)
        self.state = state
        self.lines: list[LogLine] = []
        self.chunks: list[Any] = []
        self.reports: list[ProgressInfo] = []
        self.checkpoints: list[Any] = []
        self.usages: list[tuple[int, int]] = []
        """tokens and window of each report"""

    def cancel(self, reason: str = "cancelled") -> None:
        """Set `cancelled`. An async function is not interrupted."""
        self.stop_reason = reason

    def _keep(self, message: Message) -> None:
        if isinstance(message, LogMessage) and message.level == CHUNKS:
            self.chunks += payload.decode(message.text.encode())
        elif isinstance(message, LogMessage):
            self.lines.append(LogLine(message.at, self.attempt, message.level, message.text, message.logger))
        elif isinstance(message, Progress):
            self.reports.append(ProgressInfo(message.percent, message.text))
        elif isinstance(message, Usage):
            self.usages.append((message.tokens, message.window))
        elif isinstance(message, Checkpoint):
            self.checkpoints.append(from_json(payload.decode(message.value)))


def context(
    *,
    run_id: str = "run-1",
    job_id: str = "job",
    attempt: int = 1,
    deadline: datetime | Duration | None = None,
    checkpoint: Any = None,
    payloads: Sequence[Mapping[str, Any]] = ({},),
    state: Any = None,
    session: str | None = None,
    tenant: str = "default",
    labels: Mapping[str, str] = {},
    parent: str | None = None,
) -> RecordedContext:
    """Make a context for a direct call: `report(testing.context(attempt=2), pages=3)`.

    `deadline` is an instant, or a duration from now. `checkpoint` is the value that an earlier attempt stored,
    `payloads` are those that the run has collected, and `state` is the value that the app's lifespan would yield.
    `parent` is the id of the run that made this one.
    """
    if not isinstance(attempt, int) or isinstance(attempt, bool) or attempt < 1:
        raise BadValue("attempt", attempt, "a whole number of 1 or more")
    if deadline is None or isinstance(deadline, datetime):
        until = None if deadline is None else instant(deadline, "deadline")
    else:
        until = time.time() + seconds(deadline, "deadline")
    stored = None if checkpoint is None else payload.encode(checkpoint, "checkpoint")
    if not payloads or not isinstance(payloads, Sequence) or not all(isinstance(given, Mapping) for given in payloads):
        raise BadValue("payloads", "…", "a list of at least one mapping of arguments")
    if session is not None:
        check_key("session", session)
    first, *rest = (payload.encode(dict(given), f"payloads[{index}]") for index, given in enumerate(payloads))
    dispatch = Dispatch(
        run_id, attempt, job_id, attempt, first, until, False, 0.0, stored, further=tuple(rest), session=session,
        tenant=tenant, labels=dict(labels), parent=parent,
    )  # fmt: skip
    return RecordedContext(dispatch, state)
