"""`interlock submit`."""

import sys
import time
from collections.abc import Iterator
from typing import Annotated, Any

from interlock.cli.draw.tables import out, print_json
from interlock.cli.shared.options import FINDING, Flags, JsonOption, option, switch, takes
from interlock.cli.shared.payloads import parameters_explained, read_many, read_one
from interlock.cli.shared.run_options import takes_run_options
from interlock.cli.shared.server import JobArgument, client_of
from interlock.client.http.client import BlockingRunHandle, Client
from interlock.error import RunEnded, WaitTimeout
from interlock.error_lines import say
from interlock.fields.duration import seconds
from interlock.interface.run_builder import MOST_BYTES, new_run
from interlock.wire.request import MOST_RUNS_OVER_HTTP, NewRun

PayloadOption = Annotated[
    str | None, option("JSON|@FILE|-", "Arguments as a JSON object, from a file, or from standard input.")
]
ParameterOption = Annotated[
    list[str] | None, option("KEY=VALUE", "One argument; the value is JSON, otherwise text.", "-p", "--parameter")
]
WaitOption = Annotated[str | None, option("[=DURATION]", "Wait for the end, at most this long, and print the result.")]


@takes(*FINDING)
@takes_run_options
def command(
    *,
    flags: Flags,
    job: JobArgument,
    payload: PayloadOption = None,
    parameter: ParameterOption = None,
    wait: WaitOption = None,
    options: dict[str, Any],
    many: Annotated[bool, switch("Submit a run for each item of a JSON array, or of JSON lines.", "--many")] = False,
    json: JsonOption = False,
) -> None:
    """Submit a run of a job, and print its id once it is durable. `--wait` prints the result instead."""
    limit = seconds(wait, "--wait") if wait else None
    with client_of(flags) as client, parameters_explained(parameter):
        if many:
            payloads = read_many(payload, parameter or [])
            handles = _submit_many(client, job, payloads, options, wait is not None, json)
        else:
            handles = [client.submit(job, read_one(payload, parameter or []), **options)]
            if wait is None:
                print_id(handles[0], json)
        if wait is not None:
            wait_for(client, handles, limit, json)


def print_id(handle: BlockingRunHandle[Any], json: bool) -> None:
    print_json({"id": handle.id}) if json else out(handle.id)


def _submit_many(
    client: Client, job: str, payloads: list[Any], options: dict[str, Any], wait: bool, json: bool
) -> list[BlockingRunHandle[Any]]:
    """Submit in batches. Print the ids at the end, even after a failure; a closed pipe stops no batch."""
    key = options.pop("idempotency_key", None)
    runs = [
        new_run(job, one, idempotency_key=None if key is None else f"{key}/{place}", **options)
        for place, one in enumerate(payloads)
    ]
    handles: list[BlockingRunHandle[Any]] = []
    try:
        for batch in batches(runs):
            handles += client.submit_many(batch)
    finally:
        # After a failed batch nothing waits, so print the ids now.
        if handles and not (wait and len(handles) == len(runs)):
            ids = [handle.id for handle in handles]
            print_json({"ids": ids}) if json else out("\n".join(ids))
    return handles


def batches(runs: list[NewRun]) -> Iterator[list[NewRun]]:
    """Split into batches within the server's limits on number and bytes."""
    batch: list[NewRun] = []
    size = 0
    for run in runs:
        if batch and (len(batch) == MOST_RUNS_OVER_HTTP or size + len(run.payload) > MOST_BYTES):
            yield batch
            batch, size = [], 0
        batch.append(run)
        size += len(run.payload)
    yield batch


def wait_for(client: Client, handles: list[BlockingRunHandle[Any]], limit: float | None, json: bool) -> None:
    """Print one result a line; once all have ended, raise for the first run that did not succeed."""
    if sys.stderr.isatty() and not json:
        say(f"waiting for {handles[0].id if len(handles) == 1 else f'{len(handles):,} runs'} …")
    end = None if limit is None else time.monotonic() + limit
    failure: RunEnded | WaitTimeout | None = None
    for handle in handles:
        try:
            result = handle.result(None if end is None else max(0.0, end - time.monotonic()))
            if not json:
                print_json(result)
        except RunEnded as error:
            failure = failure or error
        except WaitTimeout:
            failure = failure or WaitTimeout(handle.id, limit or 0.0)
        if json:
            print_json(client.get(handle.id))
    if failure is not None:
        raise failure
