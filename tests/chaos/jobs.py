"""The work of the chaos program. Each execution notes its own begin and end, in a file of its process.

A lock that the system drops with the process tells an execution whether another of the same run is still going on.
"""

import asyncio
import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import interlock as il

FOLDER = "CHAOS_FOLDER"
"""the variable that names the folder of the notes"""

app = il.App()

DOCUMENTS = """\
kind: Job
id: program
run: {process: [sh, FOLDER/program.sh]}
lane: narrow
---
kind: Job
id: beat
schedule: {every: 1s, catch_up: all}
constraints: {max_concurrent_runs: 20}
run: {process: [sh, FOLDER/program.sh]}
---
kind: Policy
id: chaos
default_decision: allow
rules:
- {id: never, match: {topics: [forbidden]}, decision: deny, reason: it is forbidden}
- {id: agreed, match: {topics: [asked]}, decision: require_approval, reason: somebody must agree}
output:
  rules:
  - {id: withheld, match: {topics: [secretive]}, decision: quarantine, reason: nobody may read it}
---
kind: Tenant
id: small
max_running: 2
"""
RECEIVER = "CHAOS_RECEIVER"
"""the variable that names the URL that webhooks go to"""
WITHHELD = "nobody-may-read-"
RATE, AT_ONCE, OF_TENANT = 4, 2, 2
"""starts of `paced` a second; runs of `guarded`, and of the tenant `small`, at once"""
LANES = {"main": 30, "narrow": 10, "cron": 10}
LIMITS = {"lane": LANES, "tenant": {"small": OF_TENANT}, "guarded job": {"guarded": AT_ONCE}}
PROGRAM = """\
exec 9>>"$CHAOS_FOLDER/locks/$INTERLOCK_RUN_ID"
flock -n 9 && alone=1 || alone=0
read -r now _ </proc/uptime
read -r _ _ _ host _ </proc/$PPID/stat
echo "begin $INTERLOCK_RUN_ID $INTERLOCK_ATTEMPT $now $host $alone" >>"$CHAOS_FOLDER/executions/$$"
sleep 0.1
read -r now _ </proc/uptime
echo "end $INTERLOCK_RUN_ID $INTERLOCK_ATTEMPT $now $host $alone" >>"$CHAOS_FOLDER/executions/$$"
"""


def lay_out(folder: Path) -> Path:
    """Make the folder for notes and the file of the jobs that are programs; return that file."""
    (folder / "locks").mkdir()
    (folder / "executions").mkdir()
    (folder / "program.sh").write_text(PROGRAM)
    documents = folder / "jobs.yaml"
    documents.write_text(DOCUMENTS.replace("FOLDER", str(folder)))
    return documents


@contextmanager
def noted(ctx: il.Context) -> Iterator[None]:
    """Note one execution: each line is one write to a file that is only appended to."""
    folder = Path(os.environ[FOLDER])
    lock = os.open(folder / "locks" / ctx.run_id, os.O_RDWR | os.O_CREAT, 0o600)
    notes = os.open(folder / "executions" / str(os.getpid()), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    try:
        alone = 1
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            alone = 0

        def note(what: str) -> None:
            place = f"{os.getppid()} {alone}"
            os.write(notes, f"{what} {ctx.run_id} {ctx.attempt} {time.monotonic():.3f} {place}\n".encode())

        note("begin")
        try:
            yield
        finally:
            note("end")
    finally:
        os.close(notes)
        os.close(lock)


async def wait(ctx: il.Context, seconds: float = 0.05) -> None:
    with noted(ctx):
        await asyncio.sleep(seconds * (5 if ctx.job_id == "slow" else 1))
        if ctx.job_id == "flaky" and ctx.attempt == 1:
            raise RuntimeError("the first attempt")


def block(ctx: il.Context, seconds: float) -> None:
    with noted(ctx):
        time.sleep(seconds)


async def tell(ctx: il.Context, seconds: float = 0.05) -> str:
    await wait(ctx, seconds)
    return f"{WITHHELD}{ctx.run_id}"


app.job("quick")(wait)
app.job("slow", lane="narrow")(wait)
app.job("flaky", retry=il.Retry(max_retries=2, initial_delay="50ms"))(wait)
app.job("tick", schedule=il.every("1s"))(wait)
app.job("thread")(block)
app.job("process", processes=True)(block)
app.job("forbidden")(wait)
app.job("asked")(wait)
app.job("secretive")(tell)
app.job("talk", sessions={"debounce": "0s"})(wait)
app.job("guarded", constraints=il.Constraints(max_concurrent_runs=AT_ONCE))(wait)
app.job("paced", rate=f"{RATE}/s")(wait)
app.job("telling", on_success=il.Action(action="webhook", url_env=RECEIVER))(wait)
