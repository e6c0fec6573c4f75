"""The HTTP server by itself: it answers a POST whose small body is validated, and does nothing else."""

import sys
from typing import Any

import msgspec
import uvicorn


class Asked(msgspec.Struct, forbid_unknown_fields=True):
    job: str
    payload: dict[str, Any] | None = None


class Answered(msgspec.Struct):
    id: str


decode = msgspec.json.Decoder(Asked).decode


async def answer(scope: Any, receive: Any, send: Any) -> None:
    asked = decode((await receive())["body"])
    body = msgspec.json.encode(Answered(asked.job))
    headers = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(body))]
    await send({"type": "http.response.start", "status": 201, "headers": headers})
    await send({"type": "http.response.body", "body": body})


if __name__ == "__main__":
    port = int(sys.argv[1])
    uvicorn.run(answer, port=port, http="httptools", loop="uvloop", log_config=None, access_log=False, lifespan="off")
