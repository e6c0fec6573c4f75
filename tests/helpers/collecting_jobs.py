"""Jobs that show which payloads they got."""

import os
from typing import Any

import interlock as il

app = il.App()


def joined(payloads: list[dict[str, Any]]) -> dict[str, Any]:
    return {"text": "+".join(one["text"] for one in payloads), "password": payloads[0].get("password", "")}


def picky(payloads: list[dict[str, Any]]) -> dict[str, Any]:
    if len(payloads) > 1:
        raise ValueError(f"cannot merge {payloads[0]['password'].reveal()}")
    return payloads[0]


def seen(ctx: il.Context, text: str) -> list[Any]:
    return [text, [one["text"] for one in ctx.payloads]]


@app.job("collect.async")
async def collect_async(ctx: il.Context, text: str) -> list[Any]:
    return seen(ctx, text)


@app.job("collect.thread")
def collect_in_thread(ctx: il.Context, text: str) -> list[Any]:
    return seen(ctx, text)


@app.job("collect.process", processes=True)
def collect_in_process(ctx: il.Context, text: str) -> list[Any]:
    return [*seen(ctx, text), os.getpid() == os.getpgid(0)]


@app.job("collect.merged", merge=joined)
async def collect_merged(ctx: il.Context, text: str, password: il.Secret) -> list[Any]:
    for one in ctx.payloads:
        ctx.log(f"{one['password']} is {one['password'].reveal()}")
    ctx.log(f"in the end {password.reveal()}")
    return seen(ctx, text)


@app.job("collect.picky", merge=picky)
async def collect_picky(text: str, password: il.Secret) -> str:
    return text
