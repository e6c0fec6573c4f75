"""Clients that ask and do not read: together they cost the gateway a bounded amount, and others are answered."""

from contextlib import ExitStack, suppress
from pathlib import Path

import pytest

from tests.helpers.http import connect, head
from tests.helpers.server import Server

READERS = 120
LARGE = "x" * 1_000_000
MIB = 1024 * 1024


def memory_of(pid: int) -> int:
    """Resident bytes of a process."""
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * 4096


@pytest.mark.behaviour("SEC-6")
def test_readers_who_stop_are_bounded_in_sum_and_those_who_read_are_answered(server: Server) -> None:
    """Each answer has its payload and its result: two megabytes. The kernel takes little of it on a Unix socket."""
    http = server.http
    run_id = http.submit("echo", {"value": LARGE})
    assert http.ended(run_id)["result"] == LARGE
    gateway = server.gateway()
    request = head("GET", f"/api/v1/runs/{run_id}")
    before = memory_of(gateway)
    with ExitStack() as stack:
        readers = []
        for _ in range(READERS):
            sock = stack.enter_context(connect(server.folder / "interlock.db.http"))
            sock.sendall(request)
            assert sock.recv(12) == b"HTTP/1.1 200", "its answer has begun"
            readers.append(sock)
        grown = memory_of(gateway) - before
        assert grown < 150 * MIB, "two hundred megabytes would be unread"
        assert http.get(f"/api/v1/runs/{run_id}").json["result"] == LARGE
        newest = readers[-1]
        received = 0
        while received < 2 * len(LARGE):
            part = newest.recv(MIB)
            assert part, "who reads again gets the rest"
            received += len(part)
        received = 0
        with suppress(ConnectionResetError):
            while part := readers[0].recv(MIB):
                received += len(part)
        assert received < len(LARGE), "who has not read for longest was cut off"
    assert server.gateway() == gateway, "it died and was replaced"


@pytest.mark.behaviour("SEC-6")
def test_a_list_has_the_end_of_a_long_error_and_the_run_all_of_it(server: Server) -> None:
    http = server.http
    run_id = http.submit("fail", {"text": f"begin {'x' * 2000} end"})
    whole = http.ended(run_id)["error"]
    assert whole.startswith("Traceback")
    assert whole.rstrip().endswith(" end")
    (listed,) = http.get(f"/api/v1/runs?id_prefix={run_id}").json["runs"]
    assert listed["error"] == "(cut) … " + whole[-1024:]
    short = http.submit("fatal")
    assert http.ended(short)["error"] == http.get(f"/api/v1/runs?id_prefix={short}").json["runs"][0]["error"]
