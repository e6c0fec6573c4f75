"""Compare the function of a workflow with a record: does it ask for the same steps? Nothing is run but the function.

As a program, it imports an app, and compares each record that comes on a line of its standard input.
"""

import os
import sys
from collections.abc import Mapping
from contextlib import redirect_stderr, redirect_stdout

import msgspec

from interlock.error import BadPayload, InterlockError
from interlock.model.workflow_record import WorkflowRecord
from interlock.wire import turn as t
from interlock.wire.message import Dispatch
from interlock.worker.context import Context
from interlock.worker.definition import Definition
from interlock.worker.workflow_turn import replay


class Misfit(msgspec.Struct, frozen=True):
    """Why a function does not fit a record."""

    text: str
    step: str = ""  # the first that differs


class Comparison(msgspec.Struct, frozen=True):
    """A record, and whether its run has succeeded."""

    record: WorkflowRecord
    has_succeeded: bool = False


class Answer(msgspec.Struct, frozen=True):
    """The answer to a record; the first one is about the import of the app."""

    misfit: Misfit | None = None


def misfit_of(definitions: Mapping[str, Definition], asked: Comparison) -> Misfit | None:
    """Replay a record, and return why the function does not fit it; None if it does."""
    record = asked.record
    definition = definitions.get(record.workflow)
    if definition is None or definition.job.workflow is None:
        return Misfit(f"the app has no workflow {record.workflow!r}")
    context = Context(Dispatch(record.run_id, 0, record.workflow, 1, None, None, False, 0.0), lambda message: None)
    try:
        definition.arguments(bytes(record.payload), context)
    except BadPayload as error:
        return Misfit(str(error))
    orders = replay(definition, record, context)
    last, before = orders[-1] if orders else None, record.ends[-1].name if record.ends else ""
    if isinstance(last, t.Halt):
        return Misfit(last.text, last.step)
    if asked.has_succeeded and not isinstance(last, t.Finish):
        does = f"fails ({last.error.splitlines()[-1]})" if isinstance(last, t.Fail) else "waits"
        return Misfit(f"the function {does} where the run has succeeded", before)
    return None


def main() -> None:
    from interlock.worker.app_loader import load_app
    from interlock.worker.limits import end_with_parent

    end_with_parent()
    out, decoder = os.fdopen(os.dup(1), "wb", 0), msgspec.json.Decoder(Comparison)
    with redirect_stdout(sys.stderr):  # the app's own output
        try:
            definitions = load_app(sys.argv[1]).definitions
        except InterlockError as error:
            out.write(msgspec.json.encode(Answer(Misfit(getattr(error, "why", str(error))))) + b"\n")
            return
    out.write(msgspec.json.encode(Answer()) + b"\n")
    with open(os.devnull, "w") as nowhere, redirect_stdout(nowhere), redirect_stderr(nowhere):
        for line in sys.stdin.buffer:
            out.write(msgspec.json.encode(Answer(misfit_of(definitions, decoder.decode(line)))) + b"\n")


if __name__ == "__main__":
    main()
