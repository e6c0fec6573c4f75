"""Tests in several processes: `pytest --processes 5`.

They are forked once the tests are collected, which takes ten seconds and much memory, and so happens once. A file of
tests stays together, because its tests share a server. Each process takes the next file when it has none; it sends its
reports to the first process, which shows and counts them.
"""

import json
import os
import selectors
import socket
from collections.abc import Iterator
from itertools import chain, groupby, pairwise
from typing import Any

import pytest

Files = list[list[pytest.Item]]


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--processes", type=int, default=0, metavar="N", help="run the files of tests in N processes")


@pytest.hookimpl(tryfirst=True)
def pytest_runtestloop(session: pytest.Session) -> bool | None:
    """True in the first process and in each that it forks; all leave pytest in the usual way."""
    count = session.config.getoption("--processes")
    if not count or session.testsfailed or session.config.option.collectonly:
        return None
    assert len(os.listdir("/proc/self/task")) == 1, "a module of tests starts threads when it is loaded"
    files = [list(items) for _, items in groupby(session.items, lambda item: item.path)]
    waiting, numbers = os.pipe()
    os.write(numbers, b"".join(number.to_bytes(2) for number in range(len(files))))
    os.close(numbers)
    links: dict[int, socket.socket] = {}
    for _ in range(count):
        link, theirs = socket.socketpair()
        process = os.fork()
        if process == 0:
            for other in (link, *links.values()):
                other.close()
            _run(session.config, files, waiting, theirs)
            return True
        theirs.close()
        links[process] = link
    os.close(waiting)
    _show(session.config, links)
    return True


def _run(config: pytest.Config, files: Files, waiting: int, link: socket.socket) -> None:
    # Plugins then leave the screen and the cache to the first process, as they do for pytest-xdist.
    config.workerinput = {}  # type: ignore[attr-defined]
    config.pluginmanager.unregister(name="terminalreporter")
    config.pluginmanager.register(_Reporter(config, link))
    for item, following in pairwise(chain(_taken(files, waiting), [None])):
        assert item is not None
        config.hook.pytest_runtest_protocol(item=item, nextitem=following)


def _taken(files: Files, waiting: int) -> Iterator[pytest.Item]:
    while number := os.read(waiting, 2):
        yield from files[int.from_bytes(number)]


class _Reporter:
    """Sends a line of JSON for each test that begins, for each report, and when all has gone well up to the end."""

    def __init__(self, config: pytest.Config, link: socket.socket) -> None:
        self._config = config
        self._link = link

    def _send(self, kind: str, value: Any) -> None:
        self._link.sendall(json.dumps([kind, value]).encode() + b"\n")

    def pytest_runtest_logstart(self, nodeid: str, location: tuple[str, int | None, str]) -> None:
        self._send("begins", [nodeid, location])

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self._send("report", self._config.hook.pytest_report_to_serializable(config=self._config, report=report))

    def pytest_sessionfinish(self, exitstatus: int) -> None:
        if exitstatus in (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED):
            self._send("ends", None)


class _Screen:
    """What one process says, for the plugins of the first one."""

    def __init__(self, config: pytest.Config, process: int) -> None:
        self._config = config
        self._process = process
        self._unread = b""
        self._test: tuple[str, tuple[str, int | None, str]] | None = None

    def read(self, received: bytes) -> bool:
        """Whether it goes on; if it ends within a test, that has failed."""
        if not received:
            self._end()
            return False
        *lines, self._unread = (self._unread + received).split(b"\n")
        for line in lines:
            kind, value = json.loads(line)
            if kind == "begins":
                nodeid, (file, number, name) = value
                self._test = nodeid, (file, number, name)
                self._config.hook.pytest_runtest_logstart(nodeid=nodeid, location=self._test[1])
            elif kind == "report":
                self._show(self._config.hook.pytest_report_from_serializable(config=self._config, data=value))
            else:
                self._test = None
        return True

    def _end(self) -> None:
        _, code = os.waitpid(self._process, 0)
        if self._test is not None:
            nodeid, location = self._test
            how = f"the process of this test ended with {os.waitstatus_to_exitcode(code)}"
            self._show(pytest.TestReport(nodeid, location, {}, "failed", how, "call"))

    def _show(self, report: pytest.TestReport) -> None:
        self._config.hook.pytest_runtest_logreport(report=report)


def _show(config: pytest.Config, links: dict[int, socket.socket]) -> None:
    with selectors.DefaultSelector() as selector:
        for process, link in links.items():
            selector.register(link, selectors.EVENT_READ, _Screen(config, process))
        while selector.get_map():
            for key, _ in selector.select():
                if not key.data.read(os.read(key.fd, 1 << 16)):
                    selector.unregister(key.fileobj)
    for link in links.values():
        link.close()
