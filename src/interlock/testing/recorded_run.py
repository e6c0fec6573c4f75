"""Check a recorded run against the code at hand."""

from collections.abc import Mapping
from os import PathLike
from pathlib import Path
from typing import Protocol

import msgspec

from interlock.error import BadValue, RecordDiffers
from interlock.fields.json_form import decode
from interlock.interface.record_view import RunRecord
from interlock.model.state import State
from interlock.worker.definition import Definition
from interlock.worker.workflow_fit import Comparison, misfit_of


class AppWithWorkflows(Protocol):
    @property
    def definitions(self) -> Mapping[str, Definition]: ...


def replay(app: AppWithWorkflows, file: str | PathLike[str]) -> None:
    """Replay the function of a workflow from a record that `interlock workflow record RUN > FILE` has written. No job
    runs. Raise `RecordDiffers`, which names the step, if the function does not ask for the same steps."""
    try:
        record = decode(Path(file).read_bytes(), RunRecord)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        expected = f"a record, as `interlock workflow record RUN` prints it ({error})"
        raise BadValue("file", str(file), expected) from None
    asked = Comparison(record.to_replay(), record.ended and record.state is State.SUCCEEDED)
    if (misfit := misfit_of(app.definitions, asked)) is not None:
        raise RecordDiffers(record.run_id, misfit.text, misfit.step)
