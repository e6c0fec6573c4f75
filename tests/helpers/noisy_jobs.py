"""Jobs and scanners that write wherever they can."""

import logging
import os
import sys
import warnings
from collections.abc import AsyncIterator

import interlock as il

sys.stdout.write("import prints\n")
sys.stderr.write("import prints without an end")
warnings.warn("import warns", stacklevel=1)
logging.getLogger("app").warning("import logs")


app = il.App()


@app.lifespan
async def life() -> AsyncIterator[None]:
    sys.stdout.write("lifespan prints\n")
    yield


@app.job("noise")
def noise() -> str:
    logging.getLogger("noise").warning("a line of the run")
    return "result"


@app.job("crash", max_crashes=1)
def crash() -> None:
    os._exit(3)


@app.scanner("chatty")
def chatty(text: str) -> bool:
    sys.stdout.write("a scanner prints\n")
    return False
