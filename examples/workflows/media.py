"""A media pipeline as a function: the same as examples/media.yaml.

interlock up -A examples.workflows.media:app
interlock submit media -p url=https://example.com/movie --wait
"""

from dataclasses import dataclass

import interlock as il

app = il.App()


@dataclass(frozen=True)
class Probed:
    chunks: list[str]
    path: str


@app.job("media.probe")
async def probe(url: str) -> Probed:
    return Probed(["intro", "middle", "broken" if "broken" in url else "credits"], "/tmp/media")


@app.job("media.encode", retry=il.Retry(max_retries=2, initial_delay="1s"))
async def encode(chunk: str) -> str:
    if chunk == "broken":
        raise ValueError(f"chunk {chunk!r} cannot be read")
    return f"{chunk}.av1"


@app.job("media.join")
async def join(parts: list[str]) -> str:
    return f"movie of {len(parts)} parts"


@app.job("media.clean")
async def clean(ctx: il.Context, path: str) -> None:
    ctx.log(f"removed what is left in {path}")


@app.workflow("media")
async def media(ctx: il.WorkflowContext, url: str) -> str:
    probed = await ctx.run(probe.call(url))
    try:
        parts = await ctx.map(encode, probed.chunks, max_parallel=2)
    except il.RunFailed:
        await ctx.run(clean.call(probed.path))
        raise
    return await ctx.run(join.call(parts))
