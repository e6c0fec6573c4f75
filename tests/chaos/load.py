"""Clients that submit, repeat keys and cancel, over HTTP and over the socket, and remember what they were answered."""

import asyncio
import random
from collections import Counter
from itertools import count, islice

import interlock as il
from interlock.wire.request import NewRun
from tests.chaos.record import Record

BURST = 40
PLAIN = ("quick", "quick", "quick", "thread", "thread", "slow", "process", "flaky", "program")
JOBS = (*PLAIN, *PLAIN, "forbidden", "asked", "secretive", "talk", "talk", "guarded", "telling")
PASSING = (
    "connection_lost", "not_running", "nobody_leads", "store_unavailable", "outcome_unknown", "draining", "overloaded",
    "request_timeout",
)  # fmt: skip
"""what a client may be told while parts of the server are away"""

Door = il.App | il.AsyncClient


class Load:
    def __init__(self, seed: int, record: Record) -> None:
        self._seed = seed
        self._record = record
        self._numbers = count()
        self._unfinished: list[str] = []
        self.stopping = False
        self.acknowledged: dict[str, None] = {}
        self.keys: dict[str, set[str]] = {}
        """the runs that each key was answered with"""
        self.repeated = 0
        """keys that were sent again after their run had ended"""
        self.refused: Counter[str] = Counter()
        self.job_of: dict[str, str] = {}

    def unfinished(self) -> int:
        """How many acknowledged runs have not ended yet."""
        self._unfinished = [one for one in self._unfinished if one not in self._record.ended]
        return len(self._unfinished)

    def _run_of(self, number: int, is_keyed: bool) -> NewRun:
        """The run of a number is the same however often it is asked for."""
        chance = random.Random(f"{self._seed}/{number}")
        job = chance.choice(JOBS)
        payload = {} if job == "program" else {"seconds": round(chance.uniform(0, 0.15), 3)}
        return il.run(
            job,
            payload,
            idempotency_key=f"key-{number}" if is_keyed else None,
            session=f"s{chance.randrange(3)}" if job == "talk" else None,
            tenant="small" if job == "quick" and chance.random() < 0.2 else "default",
        )

    async def submit(self, door: Door, name: str) -> None:
        """Submit batch after batch until stopped: new runs, some with keys, and keys that were used before."""
        chance = random.Random(f"{self._seed}/{name}")
        while not self.stopping:
            size = chance.choice((1, 2, 5, 20))
            runs = [self._run_of(number, chance.random() < 0.4) for number in islice(self._numbers, size)]
            if self.keys:
                old = chance.choice(list(self.keys))
                self.repeated += any(run_id in self._record.ended for run_id in self.keys[old])
                runs.append(self._run_of(int(old.removeprefix("key-")), True))
            await self.send(door, runs)
            await asyncio.sleep(chance.uniform(0.1, 0.6))

    async def burst(self, door: Door) -> None:
        """Submit many runs at once, so that every worker gets some."""
        await self.send(door, [self._run_of(number, False) for number in islice(self._numbers, BURST)])

    async def send(self, door: Door, runs: list[NewRun]) -> None:
        try:
            handles = await door.submit_many(runs)
        except il.InterlockError as error:
            self.refused[error.code] += 1
            return
        for run, handle in zip(runs, handles, strict=True):
            self.job_of[handle.id] = run.job_id
            self.acknowledged[handle.id] = None
            self._unfinished.append(handle.id)
            if run.idempotency_key is not None:
                self.keys.setdefault(run.idempotency_key, set()).add(handle.id)

    async def repeat_fire_times(self, door: Door) -> None:
        """Submit occurrences of a schedule that have ended, and may have been pruned: none of them may run again."""
        chance = random.Random(f"{self._seed}/fire times")
        while not self.stopping:
            await asyncio.sleep(chance.uniform(0.2, 1))
            past = [run_id for run_id in list(self._record.ended) if run_id.startswith("tick:") and "~" not in run_id]
            if past:
                await self.send(door, [il.run("tick", occurrence=int(chance.choice(past).removeprefix("tick:")))])

    async def cancel(self, client: il.AsyncClient) -> None:
        """Cancel runs that were submitted a moment ago, and now and then one that has long ended."""
        chance = random.Random(f"{self._seed}/cancel")
        while not self.stopping:
            await asyncio.sleep(chance.uniform(0.02, 0.6))
            known = list(self.acknowledged)[-30 if chance.random() < 0.9 else 0 :]
            if known:
                try:
                    await client.cancel(chance.choice(known))
                except il.InterlockError as error:
                    if error.code not in ("unknown_run", "run_pruned"):
                        self.refused[error.code] += 1
