"""An agent: it thinks, uses tools, asks a person before a risky one, waits for a hint, and lets a workflow report.

interlock up -A examples.workflows.agent:app
interlock submit agent -p goal=tea
interlock approvals
interlock approve RUN@approval --reason 'we need it'      # as somebody else
interlock event RUN hint -p text=green
"""

from dataclasses import dataclass, field
from typing import Any

import interlock as il

app = il.App()


@dataclass(frozen=True)
class Tool:
    name: str
    arguments: dict[str, Any]
    risky: bool = False


@dataclass(frozen=True)
class Hint:
    text: str


@dataclass(frozen=True)
class Thought:
    """What to do next: give the answer, ask for a hint, or use tools."""

    answer: str | None = None
    needs_hint: bool = False
    tools: list[Tool] = field(default_factory=list[Tool])


@app.job("agent.think")
async def think(goal: str, notes: list[str]) -> Thought:
    """Stands for a model."""
    if not notes:
        return Thought(tools=[Tool("search", {"for": goal}), Tool("buy", {"what": goal}, risky=True)])
    if len(notes) == 2:
        return Thought(needs_hint=True)
    return Thought(answer=f"{goal}: {notes[-1]}")


@app.job("agent.use")
async def use(tool: Tool) -> str:
    return f"{tool.name} done"


@app.job("report.write")
async def write(notes: list[str]) -> str:
    return "; ".join(notes)


@app.workflow("report")
async def report(ctx: il.WorkflowContext, notes: list[str]) -> str:
    return await ctx.run(write.call(notes))


@app.workflow("agent")
async def agent(ctx: il.WorkflowContext, goal: str, notes: list[str] = []) -> str:  # noqa: B006 - it is never changed
    for _ in range(50):
        thought = await ctx.run(think.call(goal, notes))
        if thought.answer is not None:
            return await ctx.run(report.call([*notes, thought.answer]))
        if thought.needs_hint:
            hint = await ctx.event("hint", Hint, timeout="1d")
            notes = [*notes, hint.text]
        for tool in thought.tools:
            if tool.risky:
                await ctx.approval(f"Run {tool.name}?", tool.arguments, timeout="2h")
            notes = [*notes, await ctx.run(use.call(tool))]
    return await ctx.continue_as_new(agent.call(goal, notes))
