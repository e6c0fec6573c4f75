"""Container engines that are not there, not well, or go away: always one clear line, and never a wait without end."""

import asyncio
import socket
from collections.abc import Mapping
from pathlib import Path

import pytest

from interlock.error import CannotStart, NoContainerEngine
from interlock.model.child_info import Exit
from interlock.supervision.container import ContainerInstance
from interlock.supervision.engines import MOST_WORDS, PATIENCE, Patience, open_engine, sockets
from interlock.supervision.instance import Birth, Surroundings
from interlock.supervision.spec import Container
from tests.helpers.containers import frame
from tests.helpers.engine_peer import GARBAGE, NOTHING, Peer, cut, reply, state
from tests.helpers.places import run_async, until

pytestmark = pytest.mark.behaviour("SUP-10")

SHORT = Patience(quick=1.5, slow=1.5, lost=0.2)


@pytest.fixture
def peer(tmp_path_factory: pytest.TempPathFactory) -> Peer:
    return Peer(tmp_path_factory.mktemp("e") / "s")


class Reports:
    lines: list[str]
    created = removed = 0
    is_pursued = False

    def __init__(self) -> None:
        self.lines = []

    def remember(self, key: str, path: str, request: bytes) -> None:
        self.created += 1

    def disregard(self, key: str) -> None:
        self.removed += 1

    def pursue(self, key: str) -> None:
        self.is_pursued = self.removed < self.created

    def sink(self, path: str, stream: str, line: str, at: float) -> None:
        self.lines.append(line)


def make(path: Path, reports: Reports | None = None, patience: Patience = SHORT) -> ContainerInstance:
    reports = reports or Reports()
    return ContainerInstance(
        Container(name="web", image="any", engine=f"unix://{path}"),
        Birth(path="web", name="web", resume_id="r"),
        Surroundings(on_line=reports.sink, now=lambda: 5.0, guard=reports),  # type: ignore[arg-type]
        patience,
    )


async def why_not(peer: Peer) -> str:
    """Why a container cannot be started."""
    async with peer.serving():
        with pytest.raises(CannotStart) as caught:
            await make(peer.path).start()
    assert "\n" not in str(caught.value)
    return caught.value.why


# ── none at all ─────────────────────────────────────────────────────────────────────────────────────────────────────


def test_where_an_engine_is_looked_for() -> None:
    everything = {"DOCKER_HOST": "unix:///d.sock", "XDG_RUNTIME_DIR": "/run/user/7"}
    assert sockets("unix:///given.sock", everything) == ["/given.sock"]
    assert sockets("/given.sock", everything) == ["/given.sock"]
    assert sockets(None, everything) == ["/d.sock"]
    usual = ["/var/run/docker.sock", "/run/podman/podman.sock"]
    assert sockets(None, {"DOCKER_HOST": "", "XDG_RUNTIME_DIR": "/run/user/7"}) == [
        *usual,
        "/run/user/7/podman/podman.sock",
    ]
    assert sockets(None, {}) == usual


@pytest.mark.parametrize(
    "value", ["tcp://127.0.0.1:2375", "ssh://host", "docker.sock", "unix://docker.sock", "unix://"]
)
def test_an_engine_that_is_not_on_a_socket(value: str) -> None:
    with pytest.raises(NoContainerEngine, match=r"^engine: .* is not a Unix socket like "):
        sockets(f"/{'x' * 107}", {})
    with pytest.raises(NoContainerEngine, match=rf"^engine: '{value}' is not a Unix socket like "):
        sockets(value, {})
    with pytest.raises(NoContainerEngine, match=rf"^DOCKER_HOST: '{value}' is not a Unix socket like "):
        sockets(None, {"DOCKER_HOST": value})


async def test_no_engine(tmp_path: Path) -> None:
    with pytest.raises(NoContainerEngine) as caught:
        await make(tmp_path / "s").start()
    assert str(caught.value) == (
        f"engine: no Docker or Podman answers at {tmp_path / 's'} (No such file or directory); "
        "start one, or name its socket with 'engine' or DOCKER_HOST=unix:///path"
    )


async def test_a_socket_that_nobody_listens_on(tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as left:
        left.bind(str(tmp_path / "s"))
    with pytest.raises(NoContainerEngine, match=r"\(Connection refused\)"):
        await open_engine(None, SHORT, {"DOCKER_HOST": f"unix://{tmp_path}/s"})


# ── one that is not well ────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (reply(500, {"message": "it\nis broken"}), "it is broken"),
        (reply(500, b"plain words"), "plain words"),
        (reply(500, {"message": "x" * 9999}), "x" * MOST_WORDS),
        (reply(503), "answered 503"),
        (reply(301, b"", "Location: http://elsewhere/"), "answered 301"),
        (reply(200, b"OK"), "is not Docker or Podman"),
        (reply(200, b"OK", "Api-Version: newest"), "is not Docker or Podman"),
        (GARBAGE, "broke off"),
        (NOTHING, "broke off"),
        (None, "did not answer within 1.5s"),
    ],
)
def test_an_engine_that_does_not_answer_as_one(peer: Peer, answer: bytes | None, why: str) -> None:
    peer.answers = {} if answer is None else {"GET /_ping": answer}
    assert why in run_async(why_not(peer))
    assert set(peer.asked) == {"GET /_ping"}


REFUSALS = [(reply(500, {"message": "broken"}), "broken"), (reply(400, b"<html>"), "<html>")]
BREAKS = [(cut(reply(200, b"[]")), "broke off"), (NOTHING, "broke off"), (GARBAGE, "broke off")]
SILENCE = (None, "did not answer within 1.5s")
NONSENSE = [
    (reply(200, b"{"), "cannot be read"),
    (reply(200, {"Id": 7, "Created": "now"}), "cannot be read"),
]
ASKED, MADE, KNOWN, STARTED = "GET containers/json", "POST containers/create", "GET c1/json", "POST c1/start"


@pytest.mark.parametrize(
    ("question", "answer", "why", "is_made"),
    [
        *((ASKED, *one, False) for one in (*REFUSALS, *BREAKS, *NONSENSE)),
        *((MADE, *one, False) for one in REFUSALS),
        *((MADE, *one, True) for one in (*BREAKS, *NONSENSE, SILENCE)),
        *((KNOWN, *one, True) for one in (*REFUSALS, *BREAKS, *NONSENSE)),
        *((STARTED, *one, True) for one in (*REFUSALS, *BREAKS, SILENCE)),
    ],
)
def test_an_engine_that_fails_at_some_point(
    peer: Peer, question: str, answer: bytes | None, why: str, is_made: bool
) -> None:
    """What it has made by then, or may have made, is removed."""
    peer.answers.pop(question)
    if answer is not None:
        peer.answers[question] = answer
    assert why in run_async(why_not(peer))
    assert ("DELETE containers" in peer.asked) == is_made


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (reply(200, b'{"status":"Pulling"}\r\n{"error":"manifest\\nunknown"}\r\n'), "manifest unknown"),
        (cut(reply(200, b'{"status":"Pulling"}\n')), "broke off"),
        (reply(500, {"message": "no such host"}), "no such host"),
        (reply(200, b"nonsense"), "cannot be read"),
        (reply(200, b'{"status":"Done"}'), "no such image"),
    ],
)
def test_an_image_that_cannot_be_pulled(peer: Peer, answer: bytes, why: str) -> None:
    peer.answers["POST containers/create"] = reply(404, {"message": "no such image"})
    peer.answers["POST images/create"] = answer
    assert why in run_async(why_not(peer))
    assert "DELETE containers" not in peer.asked


async def test_cancelled_while_an_engine_makes_it(peer: Peer) -> None:
    """It would be there only after nobody waits for it any more."""
    question = "POST containers/create"
    held = peer.held[question] = asyncio.Event()
    async with peer.serving():
        starting = asyncio.get_running_loop().create_task(make(peer.path, patience=PATIENCE).start())
        await until(lambda: question in peer.asked, "it is being made")
        starting.cancel()
        await asyncio.wait([starting], timeout=0.01)
        starting.cancel()
        assert peer.asked[-1] == question
        held.set()
        with pytest.raises(asyncio.CancelledError):
            await starting
        assert peer.asked[-1] == "DELETE containers"


# ── one that goes away ──────────────────────────────────────────────────────────────────────────────────────────────


async def ending(
    peer: Peer,
    reports: Reports,
    answers: Mapping[str, bytes | None] = {},
    *,
    gone: bool = False,
    patience: Patience = SHORT,
) -> Exit:
    """How a container ends that was started well, when these are the answers from then on."""
    async with peer.serving():
        instance = make(peer.path, reports, patience)
        await instance.start()
        for question, answer in answers.items():
            peer.answers.pop(question, None)
            if answer is not None:
                peer.answers[question] = answer
        if gone:
            await peer.vanish()
        return await instance.ended


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (reply(500, {"message": "broken"}), "broken"),
        (GARBAGE, "broke off"),
        (NOTHING, "broke off"),
        (reply(200, {}), "cannot be read"),
        (None, "did not answer within 1.5s"),
    ],
)
def test_an_engine_that_cannot_tell_of_a_container_any_more(peer: Peer, answer: bytes | None, why: str) -> None:
    reports = Reports()
    exit = run_async(ending(peer, reports, {"GET c1/json": answer}))
    assert exit.code is None
    assert why in exit.error
    # It is still to be removed, by whoever can.
    assert (reports.created, reports.removed, reports.is_pursued) == (1, 0, True)


def test_an_engine_that_stays_away(peer: Peer) -> None:
    reports = Reports()
    exit = run_async(ending(peer, reports, gone=True))
    assert "cannot be reached: No such file or directory" in exit.error
    assert (reports.created, reports.removed) == (1, 0)


def test_a_container_that_is_not_there_any_more(peer: Peer) -> None:
    reports = Reports()
    answers: dict[str, bytes | None] = {
        "GET c1/json": reply(404, {"message": "no such container"}),
    }
    answers["DELETE containers"] = reply(404)
    exit = run_async(ending(peer, reports, answers))
    assert (exit.code, exit.error) == (None, "its container was removed")
    assert (reports.created, reports.removed) == (1, 1)


@pytest.mark.parametrize(
    "log", [reply(501, {"message": "not with this driver"}), GARBAGE, reply(200, b"no frames here")]
)
def test_an_end_is_noticed_though_the_log_is_broken(peer: Peer, log: bytes) -> None:
    reports = Reports()
    peer.answers["GET c1/logs"] = log
    answers: dict[str, bytes | None] = {"GET c1/json": state("exited", 137, OOMKilled=True)}
    exit = run_async(ending(peer, reports, answers))
    assert (exit.code, exit.error) == (137, "out of memory")
    assert (reports.lines, reports.removed) == ([], 1)


def test_its_output_is_delivered_as_lines(peer: Peer) -> None:
    reports = Reports()
    time = b"2026-01-01T00:00:01.5Z "
    pieces = [(1, b"one\ntw"), (2, b"oops\n"), (3, b"of the engine\n"), (1, b"o\nthree")]
    peer.answers["GET c1/logs"] = reply(200, b"".join(frame(stream, time + text) for stream, text in pieces))
    answers: dict[str, bytes | None] = {"GET c1/json": state("exited")}
    assert run_async(ending(peer, reports, answers)).ok
    assert reports.lines == ["one", "oops", "two", "three"]


@pytest.mark.parametrize("lost", [("POST c1/kill",), ("POST c1/kill", "GET c1/json"), ()])
async def test_a_stop_has_an_end_even_if_the_engine_does_nothing(peer: Peer, lost: tuple[str, ...]) -> None:
    """It does not answer, or it says that it has killed the container, which runs on."""
    reports = Reports()
    async with peer.serving():
        instance = make(peer.path, reports)
        await instance.start()
        for question in lost:
            del peer.answers[question]
        await instance.stop(0.1)
    assert instance.ended.result().code is None
    assert instance.ended.result().error in (
        "the engine did not take the request to kill it",
        "it did not end although it was killed",
    )
    assert instance.forced == (not lost)
    assert reports.removed == 0


def test_a_container_that_is_just_being_removed_is_waited_for(peer: Peer) -> None:
    reports = Reports()
    peer.first["DELETE containers"] = [reply(409), reply(500)]
    answers: dict[str, bytes | None] = {"GET c1/json": state("exited", 4)}
    # As long as nothing else is wrong there is time for that.
    assert run_async(ending(peer, reports, answers, patience=PATIENCE)).code == 4
    assert reports.removed == 1
    assert peer.asked.count("DELETE containers") == 3


def test_a_container_that_cannot_be_removed_is_over_all_the_same(peer: Peer) -> None:
    reports = Reports()
    answers: dict[str, bytes | None] = {
        "GET c1/json": state("exited", 4),
        "DELETE containers": reply(500),
    }
    assert run_async(ending(peer, reports, answers)).code == 4
    assert reports.removed == 0
