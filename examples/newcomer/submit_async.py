"""Submit, wait, stream and cancel, in a program with an event loop."""

import asyncio
from datetime import date

import interlock as il
from examples.newcomer.jobs import Report, fingerprint, research, watch


async def main() -> None:
    async with il.AsyncClient() as client:
        run = await client.submit(research.call(date(2030, 1, 31), ["owls", "foxes"]))
        async for _, event in client.events(run=run.id, types=["run", "progress"]):
            if isinstance(event, il.ProgressEvent):
                print(f"{event.percent:.0f} % {event.text}")
            elif isinstance(event, il.RunEvent):
                print(event.state)
        report: Report = await run.result("60s")
        print(report.day, *report.findings, sep=", ")
        prints = [await client.submit(fingerprint.call(topic.encode())) for topic in report.findings]
        print(*[one.hex()[:8] for one in await il.gather(*prints)])
        endless = await client.submit(watch.call())
        await endless.cancel("seen enough")
        print(await endless.wait("60s"))


if __name__ == "__main__":
    asyncio.run(main())
