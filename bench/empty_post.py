"""The framework by itself: it answers a POST whose small body is validated, and does nothing else."""

import sys
from typing import Any

import msgspec
import uvicorn
from litestar import Litestar, post


class Asked(msgspec.Struct, forbid_unknown_fields=True):
    job: str
    payload: dict[str, Any] | None = None


class Answered(msgspec.Struct):
    id: str


@post("/api/v1/runs", status_code=201)
async def answer(data: Asked) -> Answered:
    return Answered(data.job)


if __name__ == "__main__":
    app = Litestar([answer], openapi_config=None, logging_config=None)
    port = int(sys.argv[1])
    uvicorn.run(app, port=port, http="httptools", loop="uvloop", log_config=None, access_log=False, lifespan="off")
