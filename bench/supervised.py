"""The supervisor that is measured: a script that keeps processes up with the library, and nothing else."""

import signal
import sys

# A program that only supervises speaks no TLS: asyncio does without what it would load for it, which is 2.5 MiB.
sys.modules["ssl"] = None  # type: ignore[assignment]

import asyncio  # noqa: E402 - see above

from interlock.supervision import Backoff, Process, Supervisor  # noqa: E402 - the same


async def keep(program: str, children: int) -> None:
    tree = Supervisor(
        "bench",
        [
            Process(name=f"p{number}", command=["/bin/sh", program, str(number)], backoff=Backoff(initial=0))
            for number in range(children)
        ],
    )
    asked = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, asked.set)
    async with tree:
        await asked.wait()


if __name__ == "__main__":
    asyncio.run(keep(sys.argv[1], int(sys.argv[2])))
