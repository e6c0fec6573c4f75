"""The jobs of the three nodes. Put your own here."""

import asyncio
import socket

import interlock as il

app = il.App()


@app.job("hello", retry=il.Retry(max_retries=2))
async def hello(ctx: il.Context, seconds: float = 1.0) -> str:
    await asyncio.sleep(seconds)
    return f"hello from {socket.gethostname()}"
