"""The measured workflows over a job that does nothing: graphs as documents, and a function."""

from interlock import WorkflowContext
from interlock.bench.jobs import app as app
from interlock.bench.jobs import noop

STEPS, ITEMS = 10, 1000
CHAIN = {"kind": "Workflow", "id": "chain", "steps": [{"id": f"s{one}", "job": "bench.noop"} for one in range(STEPS)]}
EACH = {
    "kind": "Workflow",
    "id": "each",
    "steps": [{"id": "all", "job": "bench.noop", "for_each": list(range(ITEMS)), "max_parallel": 100}],
}
WAIT = {"kind": "Workflow", "id": "wait", "steps": [{"id": "go", "event": "go"}]}
FUNCTION = "bench.chain"


@app.workflow(FUNCTION)
async def chain(ctx: WorkflowContext) -> None:
    for _ in range(STEPS):
        await ctx.run(noop.call())
