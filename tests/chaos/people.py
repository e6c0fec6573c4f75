"""Those who do more than submit: an approver, readers of withheld results, a client beyond its rate, and a worker on
another machine."""

import asyncio
import json
import os
import random
import signal
from collections import Counter
from pathlib import Path

import interlock as il
from tests.chaos import jobs
from tests.chaos.load import PASSING, Load
from tests.helpers.server import Command, interlock
from tests.remote.elsewhere import free_port

TOKEN = "approver-0123456789abcdef"
LATE = ("already_resolved", "stale_approval", "no_approval", "unknown_run", "run_pruned", *PASSING)
"""what an approver may be told who comes too late, or while parts of the server are away"""
GROUP = 12
"""runs of the paced job that are submitted at once, every `PAUSE` seconds: far more than its rate starts meanwhile"""
PAUSE = 4.0


class Elsewhere:
    """A worker that reaches the scheduler over TLS."""

    def __init__(self, folder: Path, data: Path) -> None:
        address = f"127.0.0.1:{free_port()}"
        made = json.loads(
            interlock(data, "worker-token", "site", "--tenant", "*", "--host", "127.0.0.1", "--json").stdout
        )
        approver = {"name": "ann", "role": "approver", "tenant": "*", "token": TOKEN}
        settings = {"listen_workers": address, "tokens": [made["entry"], approver]}
        (data / "interlock.yaml").write_text(json.dumps(settings))
        (data / "interlock.yaml").chmod(0o600)
        place = folder / "elsewhere"
        place.mkdir()
        options = ("--name", "elsewhere", "--drain", "2s", "--node", address, "--fingerprint", made["fingerprint"])
        self._worker = Command(place, "interlock.cli", "worker", "-A", "tests.chaos.jobs:app", *options, name="worker")
        self._worker.extra = {"INTERLOCK_WORKER_TOKEN": made["token"], jobs.FOLDER: str(folder)}

    @property
    def pid(self) -> int | None:
        return None if self._worker.process is None else self._worker.pid

    def begin(self) -> None:
        self._worker.begin()

    def kill(self) -> None:
        self._worker.kill()

    def stop(self) -> list[str]:
        """Stop in order; return what was wrong."""
        if self._worker.process is None:
            return []
        os.kill(self._worker.pid, signal.SIGCONT)
        code = self._worker.stop()
        is_right = code in (0, 128 + signal.SIGINT)  # the latter if it was still starting
        return [] if is_right else [f"the worker elsewhere: exit {code}: {self._worker.said[-500:]}"]


class People:
    def __init__(self, seed: int, load: Load) -> None:
        self._seed = seed
        self._load = load
        self.approved: set[str] = set()
        """runs that the approver agreed to, as far as anybody knows"""
        self.alone: list[str] = []
        """runs that their submitter could approve"""
        self.resolved = 0
        self.read = 0
        self.leaked: list[str] = []
        self.refused: Counter[str] = Counter()

    async def approve(self, approver: il.AsyncClient, submitter: il.AsyncClient) -> None:
        """Approve or reject every run that asks for it; the one who submitted it tries first, in vain."""
        chance = random.Random(f"{self._seed}/approver")
        while True:
            await asyncio.sleep(chance.uniform(0.1, 0.5))
            try:
                waiting = [one async for one in approver.approvals(limit=20)]
            except il.InterlockError as error:
                self._refuse(error)
                continue
            for one in waiting:
                if chance.random() < 0.2:
                    await self._approve_alone(submitter, one.run_id)
                await self._resolve(approver, one.run_id, chance.random() < 0.7)

    async def _approve_alone(self, submitter: il.AsyncClient, run_id: str) -> None:
        try:
            await submitter.approve(run_id, "by whoever submitted it")
            self.alone.append(run_id)
        except il.InterlockError as error:
            if error.code != "self_approval":
                self._refuse(error)

    async def _resolve(self, approver: il.AsyncClient, run_id: str, agrees: bool) -> None:
        if agrees:
            self.approved.add(run_id)  # first: the answer may be lost
        try:
            await (approver.approve if agrees else approver.reject)(run_id, "by chance")
            self.resolved += 1
        except il.InterlockError as error:
            self._refuse(error)

    def _refuse(self, error: il.InterlockError) -> None:
        if error.code not in LATE:
            self.refused[error.code] += 1

    async def read_withheld(self, client: il.AsyncClient) -> None:
        """Try to read results that nobody may see, wherever runs are shown."""
        chance = random.Random(f"{self._seed}/reader")
        while True:
            await asyncio.sleep(chance.uniform(0.05, 0.3))
            known = [run_id for run_id in list(self._load.acknowledged)[-200:] if self._is_withheld(run_id)]
            if known:
                await self.look_at(client, chance.choice(known))

    def _is_withheld(self, run_id: str) -> bool:
        return self._load.job_of.get(run_id) == "secretive"

    async def look_at(self, client: il.AsyncClient, run_id: str) -> None:
        try:
            shown = [await client.get(run_id), await client.explain(run_id), await client.history(run_id)]
            shown.append([one async for one in client.runs(job="secretive", limit=10)])
        except il.InterlockError as error:
            self._refuse(error)
            return
        self.read += 1
        if jobs.WITHHELD in repr(shown):
            self.leaked.append(run_id)

    async def submit_too_fast(self, client: il.AsyncClient) -> None:
        while not self._load.stopping:
            await self._load.send(client, [il.run("paced") for _ in range(GROUP)])
            await asyncio.sleep(PAUSE)
