"""Failures with real workers: the errors of `result()`, retries by exception, and handlers on the main thread."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import interlock as il
from tests.helpers.failing_jobs import app
from tests.helpers.places import clean_folder, run_async
from tests.helpers.processes import wait_until
from tests.helpers.server import Server

HERE = "tests.helpers.failing_jobs"


@pytest.fixture(scope="module")
def place() -> Iterator[Server]:
    with (
        clean_folder() as folder,
        Server(Path(folder), "--drain", "1s", "--http", "local", target=f"{HERE}:app") as running,
    ):
        yield running


@pytest.fixture(params=["app", "client"])
def failed(request: pytest.FixtureRequest, place: Server) -> Callable[..., il.RunEnded]:
    """Submit a run and return the error of its `result()`, over either way."""

    def over_http(job: str, **payload: Any) -> il.RunEnded:
        with il.Client(f"unix:{place.http_socket}") as client, pytest.raises(il.RunEnded) as caught:
            client.submit(job, payload).result(30)
        return caught.value

    def over_the_link(job: str, **payload: Any) -> il.RunEnded:
        async def body() -> None:
            async with app.connected(str(place.socket)):
                await (await app.submit(job, payload)).result(30)

        with pytest.raises(il.RunEnded) as caught:
            run_async(body())
        return caught.value

    return over_the_link if request.param == "app" else over_http


def test_the_cause_of_a_failure_is_the_remote_exception(failed: Callable[..., il.RunEnded]) -> None:
    error = failed("choosy", kind="wrong")
    cause = error.__cause__
    assert (type(error), type(cause)) == (il.RunFailed, il.RemoteError)
    assert isinstance(cause, il.RemoteError)
    assert (cause.type, cause.message) == (f"{HERE}.Wrong", "wrong it is")
    assert cause.types == (f"{HERE}.Wrong", "ValueError", "Exception", "BaseException")
    assert cause.traceback.startswith("Traceback")
    assert "in raise_named" in cause.traceback
    assert cause.__notes__ == [cause.traceback]


@pytest.mark.behaviour("RET-1", "RET-2")
@pytest.mark.parametrize(("kind", "attempts"), [("busy", 3), ("wrong", 1), ("gone", 1)])
def test_on_and_never_decide_by_the_class_that_was_raised(place: Server, kind: str, attempts: int) -> None:
    with il.Client(f"unix:{place.http_socket}") as client:
        run = client.submit("choosy", {"kind": kind})
        assert run.wait(30) is il.State.FAILED
        info = run.info()
        assert (info.attempt, info.failures) == (attempts, attempts)
        assert info.facets["failure"]["message"] == f"{kind} it is"


@pytest.mark.behaviour("RET-1", "EXE-5")
def test_retry_after_sets_the_delay(place: Server) -> None:
    with il.Client(f"unix:{place.http_socket}") as client:
        run = client.submit("later", {"delay": "30ms"})
        assert run.result(30) == 2
        assert run.info().facets == {}
        reasons = [entry.reason for entry in run.history() if entry.after is il.State.RETRYING]
        assert reasons == ["failed: the service asked for it, retry 1 of 1 in 0.03s"]
        waits = client.submit("patient", {"delay": "1h"})
        wait_until(lambda: waits.state() is il.State.RETRYING, "it waits")
        failure = waits.info().facets["failure"]
        assert (failure["types"][0], failure["retry_after"]) == ("interlock.model.failure.RetryAfter", 3600.0)
        waits.cancel()
        with pytest.raises(il.RunCancelled):
            waits.result(30)


@pytest.mark.behaviour("RET-2")
@pytest.mark.parametrize("delay", ["-1s", "soon", "1000001d"])
def test_a_bad_retry_after_fails_the_run_for_good(failed: Callable[..., il.RunEnded], delay: str) -> None:
    error = failed("patient", delay=delay)
    assert isinstance(error.__cause__, il.RemoteError)
    assert isinstance(error, il.RunFailed)
    assert f"RetryAfter: '{delay}' is not a duration" in error.reason


def test_secrets_are_not_in_a_failure(failed: Callable[..., il.RunEnded]) -> None:
    cause = failed("secretive", password="hunter22").__cause__
    assert isinstance(cause, il.RemoteError)
    assert "cannot log in with" in cause.message
    assert "hunter22" not in cause.message + cause.traceback


def test_an_exception_that_cannot_be_read_fails_all_the_same(failed: Callable[..., il.RunEnded]) -> None:
    error = failed("rude")
    assert (type(error), error.__cause__) == (il.RunFailed, None)


# ── on the main thread ──────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.behaviour("EXE-1")
def test_handlers_with_a_process_of_their_own_run_on_its_main_thread(place: Server) -> None:
    with il.Client(f"unix:{place.http_socket}") as client:
        # One after the other, so that both kinds share a process.
        ends = [client.submit(f"main.{kind}").result(30) for kind in ("sync", "async", "sync", "sync", "async")]
        assert [end[:2] for end in ends] == [
            [True, "alarm"], [True, "heard"], [True, "alarm"], [True, "alarm"], [True, "heard"],
        ]  # fmt: skip
        assert client.submit("main.forks").result(30) == "the original"


@pytest.mark.behaviour("EXE-5")
@pytest.mark.parametrize(("job", "raised"), [("main.waits", True), ("main.deaf", False)])
def test_a_busy_main_thread_hears_of_a_cancel_before_its_grace_is_over(place: Server, job: str, raised: bool) -> None:
    with il.Client(f"unix:{place.http_socket}") as client:
        run = client.submit(job)
        wait_until(lambda: run.info().progress, "it works")
        run.cancel("enough")
        with pytest.raises(il.RunCancelled) as caught:
            run.result(15)
        assert (caught.value.__cause__ is not None) == raised
