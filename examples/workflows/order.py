"""An order: if the parcel cannot be shipped, the money goes back, then the goods.

interlock up -A examples.workflows.order:app
interlock submit order -p customer=ann -p 'items=["tea"]' -p cents=500 --wait
"""

from dataclasses import dataclass

import interlock as il

app = il.App()


@dataclass(frozen=True)
class Charge:
    id: str
    cents: int


@app.job("stock.reserve")
async def reserve(items: list[str]) -> str:
    return f"slot of {len(items)}"


@app.job("stock.release")
async def release(ctx: il.Context, result: str) -> None:
    ctx.log(f"released the {result}")


@app.job("pay.charge")
async def charge(customer: str, cents: int) -> Charge:
    return Charge(f"charge of {customer}", cents)


@app.job("pay.refund")
async def refund(ctx: il.Context, result: Charge) -> None:
    ctx.log(f"gave {result.cents} cents back: {result.id}")


@app.job("parcel.ship")
async def ship(items: list[str], slot: str) -> str:
    if "anvil" in items:
        raise il.Fatal("an anvil is too heavy")
    return f"{', '.join(items)} from {slot}"


@app.workflow("order")
async def order(ctx: il.WorkflowContext, customer: str, items: list[str], cents: int) -> str:
    slot = await ctx.run(reserve.call(items), undo=release)
    await ctx.run(charge.call(customer, cents), undo=refund)
    return await ctx.run(ship.call(items, slot))
