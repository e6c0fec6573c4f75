"""Whole processes: `interlock worker-token`, `interlock up --listen-workers` and `interlock worker --node`."""

import json
import random
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import interlock as il
from interlock.model.state import State
from interlock.wire.request import NewRun
from tests.helpers.invariants import check_database
from tests.helpers.jobs import app
from tests.helpers.places import clean_folder, lines_of, run_async, tell_to_go, until, until_running
from tests.helpers.processes import wait_until
from tests.helpers.server import JOBS, interlock
from tests.helpers.submitter import Submitter
from tests.remote.certificates import certificates
from tests.remote.elsewhere import Site


@pytest.fixture(scope="module")
def site() -> Iterator[Site]:
    with clean_folder() as folder:
        made = Site(folder)
        with made.server:
            yield made


def test_a_worker_elsewhere_executes_runs(site: Site) -> None:
    """Its handlers see neither its token nor a socket that is not there."""
    worker = site.worker()
    worker.begin()

    async def body() -> None:
        async with app.connected(str(site.server.socket)):
            run = await app.submit("echo", {"value": 5})
            assert await run.result(60) == 5
            assert str((await run.info()).worker_id).startswith("site:worker-")
            variables = await (await app.submit("variables")).result(60)
            assert variables is not None
            assert not {"INTERLOCK_SOCKET", "INTERLOCK_WORKER_TOKEN"} & set(variables)

    try:
        run_async(body())
        assert worker.stop() == 0
        connected = rf"worker-\d+-\S+ is connected to {site.address}: pool default, 64 slots\n"
        assert re.fullmatch(connected, worker.said)
    finally:
        worker.kill()
    assert f"workers {site.address}" in site.server.said
    assert site.made["token"] not in site.server.said


TOKEN = {"INTERLOCK_WORKER_TOKEN": "wrong-0123456789abcdef"}
REFUSALS: dict[str, tuple[list[str], dict[str, str], int, str]] = {
    "wrong token": (["--fingerprint", "RIGHT"], TOKEN, 6, "[token_refused]"),
    "wrong fingerprint": (["--fingerprint", f"sha256:{'0' * 64}"], TOKEN, 6, "[wrong_certificate]"),
    "wrong CA": (["--ca", "OTHER"], TOKEN, 6, "[wrong_certificate]"),
    "no CA": ([], TOKEN, 6, "(self-signed certificate)"),
    "CA and fingerprint": (["--ca", "OTHER", "--fingerprint", "RIGHT"], TOKEN, 2, "fingerprint: cannot be combined"),
    "no such CA": (["--ca", "nothing.pem"], TOKEN, 2, "ca: 'nothing.pem' is not a file with certificates"),
    "no CA in it": (["--ca", "empty"], TOKEN, 2, "ca: 'empty' is not a file with certificates"),
    "no token": (["--fingerprint", "RIGHT"], {}, 2, "set INTERLOCK_WORKER_TOKEN or --worker-token-file"),
    "short token": (["--fingerprint", "RIGHT"], {"INTERLOCK_WORKER_TOKEN": "short"}, 2, "is not 16 to 512 printable"),
    "no token file": (["--worker-token-file", "nothing"], {}, 2, "worker_token_file: 'nothing' is not a file"),
    "no token in it": (["--worker-token-file", "empty"], {}, 2, "worker_token_file: 'empty' is not a file with 16"),
    "fingerprint of another kind": (["--fingerprint", "md5:00"], TOKEN, 2, "--fingerprint: 'md5:00' is not sha256:"),
    "no host": (["--node", "a..b:1"], TOKEN, 2, "--node[0]: 'a..b:1' is not 'host:port'"),
    "no address": (["--node", "here"], TOKEN, 2, "--node[0]: 'here' is not 'host:port'"),
}


@pytest.mark.parametrize("case", REFUSALS)
def test_a_worker_that_cannot_join_says_why(site: Site, case: str) -> None:
    options, variables, code, why = REFUSALS[case]
    (site.place / "empty").touch()
    known = {"RIGHT": site.made["fingerprint"], "OTHER": str(certificates()["other"].path)}
    options = [known.get(one, one) for one in options]
    to = [] if "--node" in options else ["--node", site.address]
    done = interlock(site.place, "worker", "-A", JOBS, *to, *options, **variables)
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (code, "", 1), done.stderr
    assert why in done.stderr
    assert not any(token in done.stderr for token in variables.values() if token != "short")


@pytest.mark.behaviour("LIV-4")
def test_a_worker_waits_for_its_scheduler_and_work_survives_its_end(folder: Path) -> None:
    site = Site(folder)
    worker = site.worker()
    worker.begin()
    wait_until(lambda: "trying again until it answers" in worker.said, "the worker finds no scheduler")
    site.server.start()

    async def body() -> str:
        async with app.connected(str(site.server.socket)):
            run = await app.submit("hold", {"folder": str(folder), "name": "work"})
            await until(lambda: lines_of(folder / "work.started"), "it has started")
            await until_running(run)
            await site.server.restart()
            tell_to_go(folder, "work")
            assert await run.result(60) == 1
            return run.id

    try:
        run_id = run_async(body())
        assert worker.stop() == 0
        assert site.server.stop() == 0
    finally:
        worker.kill()
        site.server.kill()
    assert lines_of(folder / "work.ended") == ["1"]
    check_database(site.server.database, [run_id])


@pytest.mark.behaviour("REC-6", "RUN-17", "RET-5")
def test_scheduler_and_workers_killed_at_random_moments(folder: Path) -> None:
    chance = random.Random(folder.name)
    site = Site(folder, "--heartbeat", "500ms", "--drain", "10s")
    workers = [site.worker("one"), site.worker("two")]

    def make(number: int) -> list[NewRun]:
        runs = [il.run("count", {"folder": str(folder)}) for _ in range(chance.randint(1, 8))]
        return [*runs, il.run("flaky", {"failures": 1}), il.run("count", {"folder": str(folder)}, delay="50ms")]

    async def body() -> list[str]:
        async with app.connected(str(site.server.socket)), Submitter(make) as submitter:
            for kinds in ("w", "s", "sw", "w"):
                await submitter.reach(chance.randint(1, 150))
                killed = chance.choice(workers)
                if "w" in kinds:
                    killed.kill()
                if "s" in kinds:
                    await site.server.restart()
                if killed.process is None:
                    killed.begin()
        return submitter.acknowledged

    site.server.start()
    for worker in workers:
        worker.begin()
    try:
        acknowledged = run_async(body(), 120)
        # One may still be starting.
        for worker in workers:
            worker.kill()
        assert site.server.stop() == 0
    finally:
        for worker in workers:
            worker.kill()
        site.server.kill()
    states = check_database(site.server.database, acknowledged)
    assert set(states.values()) <= {State.SUCCEEDED, State.ORPHANED}
    executed = {line.split()[0] for line in lines_of(folder / "executions")}
    assert executed <= set(states), "something was executed that is not in the store"


BAD_SETTINGS: dict[str, tuple[dict[str, Any], str]] = {
    "no token of role worker": (
        {"tokens": [{"name": "a", "role": "viewer", "token": "viewer-0123456789abcdef"}]},
        "listen_workers: there is no token of the role worker or gateway; make one with: interlock worker-token NAME",
    ),
    "no certificate": ({"worker_cert": "nothing.crt"}, "worker_cert: there is no file nothing.crt; make it with"),
    "a certificate of another key": ({"worker_key": "OTHER"}, "cannot be used: "),
    "not a certificate": ({"worker_cert": "interlock.yaml"}, "cannot be used: "),
    "a taken port": ({"listen_workers": "SAME"}, "is taken by another program; choose another with --listen-workers"),
    "pools of a viewer": (
        {"tokens": [{"name": "a", "role": "viewer", "token": "viewer-0123456789abcdef", "pools": ["gpu"]}]},
        "a token of role viewer has none; only workers have pools",
    ),
    "a pool with a space": (
        {"tokens": [{"name": "a", "role": "worker", "token": "worker-0123456789abcdef", "pools": ["g p u"]}]},
        "'g p u' is not a name of letters",
    ),
}


@pytest.mark.parametrize("case", BAD_SETTINGS)
def test_a_scheduler_that_cannot_listen_says_why(site: Site, folder: Path, case: str) -> None:
    changes, why = BAD_SETTINGS[case]
    known = {"SAME": site.address, "OTHER": str(certificates()["other"].key)}
    files = {name: str(site.folder / f"interlock.db.worker.{ending}") for name, ending in FILES.items()}
    settings = {"listen_workers": "127.0.0.1:0", "tokens": [site.made["entry"]], **files, **changes}
    settings = {name: known.get(str(value), value) for name, value in settings.items()}
    (folder / "interlock.yaml").write_text(json.dumps(settings))
    (folder / "interlock.yaml").chmod(0o600)
    done = interlock(folder, "up", "--http", "off", "--workers", "0")
    assert (done.returncode != 0, why in done.stderr) == (True, True), done.stderr


FILES = {"worker_cert": "crt", "worker_key": "key"}
