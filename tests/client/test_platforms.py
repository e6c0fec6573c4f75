"""The client works wherever Python does; schedulers and workers say that they need Linux, and do without uvloop."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.client.faulty import Faulty

LINUX_ONLY = ("fcntl", "grp", "pwd", "resource", "termios", "tty", "pty", "uvloop")

BLOCK = """
import sys
class Blocked:
    def find_spec(self, name, path=None, target=None):
        if name in NAMES:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
sys.meta_path.insert(0, Blocked())
for name in NAMES:
    sys.modules.pop(name, None)
"""

# The standard library and aiohttp choose their own parts by the platform, so they are imported before it is patched.
ELSEWHERE = """
import aiohttp, asyncio, email, http.client, logging, signal, sqlite3, ssl, subprocess, sysconfig, tempfile, typer
import typer.main, typer.rich_utils, zoneinfo
sysconfig.get_config_vars()
sys.platform = PLATFORM
"""

CLIENT = """
import importlib, json, pkgutil
import interlock, interlock.client
names = [name for name in interlock.__all__ if getattr(interlock, name) is not None]
modules = [one.name for one in pkgutil.walk_packages(interlock.client.__path__, "interlock.client.")]
for name in modules:
    importlib.import_module(name)
app = interlock.App()
app.job("reports.daily", schedule=interlock.cron("0 2 * * *"))(lambda: None)
interlock.Client("http://localhost:1")
print(json.dumps([len(names) == len(interlock.__all__), len(modules)]))
"""

# What only some platforms have, besides modules.
WITHOUT_NAMES = """
import os, select, socket
for module, name in ((socket, "AF_UNIX"), (select, "poll"), (os, "fork"), (os, "register_at_fork")):
    delattr(module, name)
"""

USE = """
import sys
from interlock import AsyncClient, Client, InterlockError
with Client(sys.argv[1]) as client:
    print(client.get("r1").id, client.get("r1").result)
for kind in (Client, AsyncClient):
    for url in (None, "unix:/tmp/x.http"):
        try:
            kind(url)
        except InterlockError as error:
            print(error.code, "http://host:port" in str(error))
"""

SERVER = """
import asyncio, importlib, json, interlock
found = []
def refused(name, work):
    try:
        work()
    except interlock.InterlockError as error:
        found.append([name, error.code])
app = interlock.App()
async def running():
    async with app.running(":memory:"):
        pass
async def connected():
    async with app.connected("nowhere.sock"):
        pass
refused("scheduler", lambda: importlib.import_module("interlock.wiring.scheduler"))
refused("worker", lambda: importlib.import_module("interlock.wiring.worker"))
refused("running", lambda: asyncio.run(running()))
refused("connected", lambda: asyncio.run(connected()))
print(json.dumps(found))
"""


def perform(program: str, folder: Path, check: bool = True) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-c", program]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=check, cwd=folder)


def elsewhere(platform: str) -> str:
    return f"NAMES, PLATFORM = {LINUX_ONLY!r}, {platform!r}{BLOCK}{ELSEWHERE}"


@pytest.mark.parametrize("platform", ["win32", "darwin"])
def test_the_client_needs_nothing_of_linux(platform: str, tmp_path: Path) -> None:
    every_name, modules = json.loads(perform(elsewhere(platform) + CLIENT, tmp_path).stdout)
    assert every_name
    assert modules > 5


def test_a_client_works_without_unix_sockets_and_says_that_it_needs_an_address(tmp_path: Path) -> None:
    with Faulty() as server:
        program = elsewhere("win32") + f"sys.argv[1:] = [{server.url!r}]\n" + WITHOUT_NAMES + USE
        said = perform(program, tmp_path).stdout.splitlines()
    assert said == ["r1 {'sum': 3}", *["bad_value True"] * 4]


@pytest.mark.parametrize("platform", ["win32", "darwin"])
def test_a_scheduler_or_worker_elsewhere_says_that_it_needs_linux(platform: str, tmp_path: Path) -> None:
    found = dict(json.loads(perform(elsewhere(platform) + SERVER, tmp_path).stdout))
    assert found == dict.fromkeys(("scheduler", "worker", "running", "connected"), "needs_linux")


@pytest.mark.parametrize("command", [["up"], ["worker"], ["doctor"]])
def test_a_command_that_needs_linux_says_so_on_one_line(command: list[str], tmp_path: Path) -> None:
    entry = f"sys.argv[1:] = {command!r}\nfrom interlock.cli.main import main\nmain()\n"
    done = perform(elsewhere("win32") + entry, tmp_path, check=False)
    assert done.returncode == 1
    assert "needs_linux" in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_a_server_runs_without_uvloop(tmp_path: Path) -> None:
    # By way of the environment, so that the worker and its executor process do without it too.
    (tmp_path / "sitecustomize.py").write_text(f"NAMES = ('uvloop',){BLOCK}")
    (tmp_path / "jobs.py").write_text(
        "import asyncio, sys, interlock\n"
        "app = interlock.App()\n"
        "@app.job('loops')\n"
        "async def loops():\n"
        "    return [type(asyncio.get_running_loop()).__module__.partition('.')[0], 'uvloop' in sys.modules]\n"
        "async def main():\n"
        "    async with app.running('jobs.db'):\n"
        "        print(await (await app.submit('loops')).result(timeout=60))\n"
        "if __name__ == '__main__':\n"
        "    asyncio.run(main())\n"
    )
    done = subprocess.run(
        [sys.executable, "jobs.py"],
        env={"PYTHONPATH": str(tmp_path), "PATH": ""},
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
        cwd=tmp_path,
    )
    assert done.stdout.strip() == "['asyncio', False]"
