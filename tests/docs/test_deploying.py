"""The unit of systemd and the container of the page on deploying start a server that reloads and stops in order."""

import json
import re
import shlex
from collections.abc import Callable
from configparser import ConfigParser
from pathlib import Path

import pytest

from tests.docs.blocks import ADDRESS, of_language, run_shell
from tests.docs.test_getting_started import GETTING_STARTED, put_files, shell_of

DEPLOYING = "docs/deploying.md"
USED = """
set -e
mkdir -m 700 data
{start} &
curl -s -w '\\n' --retry 9 --retry-all-errors http://{address}/readyz
interlock submit greet --wait --db data/interlock.db
MAINPID=$!
{reload}
{checks}
kill -TERM $MAINPID && wait $MAINPID
echo ended with $?
"""


def unit() -> ConfigParser:
    (block,) = of_language(DEPLOYING, "ini")
    parser = ConfigParser()
    parser.read_string(block.text)
    return parser


def started_by_systemd() -> str:
    return unit()["Service"]["ExecStart"]


def started_in_a_container() -> str:
    (block,) = of_language(DEPLOYING, "dockerfile")
    return shlex.join(json.loads(re.findall(r"^CMD (.*)$", block.text, re.M)[0])).replace("0.0.0.0:8420", ADDRESS)


@pytest.mark.parametrize("start", [started_by_systemd, started_in_a_container])
def test_it_starts_reloads_and_stops(start: Callable[[], str], folder: Path) -> None:
    put_files(GETTING_STARTED, folder)
    assert put_files(DEPLOYING, folder) == ["interlock.yaml"]
    settings = folder / "interlock.yaml"
    settings.write_text(settings.read_text().replace("/var/lib/interlock", str(folder / "data")))
    command = start().replace("/srv/shop/.venv/bin/", "").replace("/srv/shop", str(folder))
    checks = shell_of(DEPLOYING)
    said = run_shell(
        USED.format(start=command, address=ADDRESS, reload=unit()["Service"]["ExecReload"], checks=checks), folder
    )
    assert '{"ready":true' in said, said
    assert '"hello world"' in said, said
    assert "reloaded" in said, said
    assert said.endswith("ended with 0\n"), said


def test_systemd_waits_longer_than_a_stop_takes() -> None:
    (settings,) = of_language(DEPLOYING, "yaml")
    drain = int(re.findall(r"^drain: (\d+)s$", settings.text, re.M)[0])
    assert int(unit()["Service"]["TimeoutStopSec"]) > drain + 10
