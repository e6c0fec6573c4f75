"""Dead letters: which ends have one, replays with and without other arguments, drops, and messages nobody can read."""

from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from interlock.core.bulk.table import Bulks
from interlock.core.decisions import Failed
from interlock.core.explain import explain
from interlock.core.letters.letter import give_up
from interlock.core.state import CoreLimits
from interlock.core.step import Command
from interlock.core.transition import Pass
from interlock.error import UnknownJob
from interlock.model.bulk import BulkRequest, RunAction
from interlock.model.job import Job, Retry
from interlock.model.letter import DeadLetter, Dropped, LetterCode, LetterFilter
from interlock.model.policy.verdict import Ruling
from interlock.model.run import Run, RunFilter
from interlock.model.state import State
from interlock.model.tenant import TenantSpec
from interlock.wire.command import Define
from interlock.wire.letter_request import DropLetters, Replay
from interlock.wire.message import Returned, Settled, Unread
from interlock.wire.request import StartBulk, ValueAnswer
from interlock.wire.run_request import RetryRun
from tests.core.machine import START, Machine, at_once
from tests.core.policies import policy, rule

ALL = LetterFilter()


def failed(m: Machine, **fields: Any) -> str:
    run_id = m.running(**fields)
    m.finished(run_id, "failed_fatal", error="no such file")
    return run_id


def orphaned(m: Machine) -> str:
    run_id = m.running()
    for _ in range(3):
        m.started(run_id)
        m.lost(run_id)
    return run_id


def timed_out(m: Machine) -> str:
    run_id = m.submit(deadline=START + 1)
    m.advance(2)
    return run_id


def denied(m: Machine) -> str:
    m.policy = policy(rule(Ruling.DENY))
    m.step(("", m.define()))
    return m.submit()


def cancelled(m: Machine) -> str:
    run_id = m.submit(at=START + 100)
    m.cancel(run_id)
    return run_id


def succeeded(m: Machine) -> str:
    run_id = m.running()
    m.finished(run_id)
    return run_id


def letters(m: Machine) -> list[DeadLetter]:
    return list(m.store.all_of(DeadLetter).values())


def replay(run_id: str, key: str = "", **fields: Any) -> Command:
    return "client", Replay(7, run_id, "again", **fields).by(actor="ann", key=key)


@pytest.mark.behaviour("REC-4", "REC-6")
@pytest.mark.parametrize(
    ("end", "code", "error"),
    [
        (failed, "failed", "no such file"),
        (orphaned, "orphaned", "signal 9"),
        (timed_out, "timeout", "deadline passed while scheduled"),
        (denied, "safety_denied", None),
        (cancelled, None, None),
        (succeeded, None, None),
    ],
)
def test_an_end_has_its_letter_in_the_same_batch(
    end: Callable[[Machine], str], code: str | None, error: str | None
) -> None:
    m = Machine(Job(id="work"), Job(id="other"))
    run_id = end(m)
    run = m.store.runs_by_id[run_id]
    assert m.last.batch.of(DeadLetter) == letters(m)
    if code is None:
        assert letters(m) == []
    else:
        (letter,) = letters(m)
        assert (letter.id, letter.run_id, letter.code, letter.job_id) == (run_id, run_id, code, run.job_id)
        assert (letter.error, letter.at, letter.tenant) == (error or run.error, m.wall, "default")


@pytest.mark.behaviour("REC-4")
def test_a_stage_gives_up_a_run_with_a_code_of_its_own(m: Machine) -> None:
    why = "no worker for 50 tries"

    def stage(p: Pass, run: Run) -> bool:
        give_up(p, run, LetterCode.NO_WORKERS, why)
        return True

    m.state.machine = replace(m.state.machine, plain_stages=(stage,))
    run_id = m.submit()
    run = m.store.runs_by_id[run_id]
    assert (run.state, run.reason, run.error) == (State.FAILED, f"no_workers: {why}", why)
    assert [(one.id, one.code, one.error) for one in letters(m)] == [(run_id, "no_workers", why)]


@pytest.mark.behaviour("REC-4")
def test_a_retry_by_any_way_names_the_new_run_in_the_letter(m: Machine) -> None:
    one, two, other = failed(m), failed(m, tenant="blue"), cancelled(m)
    m.step(("client", RetryRun(7, one)), replay(two, "k"), replay(other))
    first, second = (one.replayed_as for one in letters(m))
    assert first is not None
    assert second is not None
    assert (m.run(second).tenant, m.run(second).origin, m.run(second).payload) == ("blue", "retry", b"{}")
    assert [letter.replayed_as for letter in m.last.batch.of(DeadLetter)] == [first, second]
    m.step(replay(two, "k"))
    assert letters(m)[1].replayed_as == second, "the same request is the same run"
    m.step(replay(two))
    assert letters(m)[1].replayed_as not in (None, second), "as a retry, it may be repeated"
    assert not at_once(m.store.records(DeadLetter, LetterFilter(replayed=False).records)).records


@pytest.mark.behaviour("REC-4")
def test_a_replay_with_other_arguments_passes_the_policy_like_any_run(m: Machine) -> None:
    old = failed(m, payload=b'{"a":1}')
    m.step(replay(old, arguments=b'{"a":2}'))
    new = letters(m)[0].replayed_as
    assert new is not None
    assert m.run(new).payload == b'{"a":2}'
    m.policy = policy(rule(Ruling.DENY))
    m.step(("", m.define()))
    m.step(replay(old))
    latest = letters(m)[0].replayed_as
    assert m.store.runs_by_id[latest or ""].state is State.DENIED
    assert letters(m)[-1].code is LetterCode.SAFETY_DENIED


def test_a_letter_whose_job_is_gone_is_not_replayed() -> None:
    m = Machine(Job(id="work"), Job(id="old"))
    run_id = failed(m, job_id="old")
    m.step(("", Define(1, [Job(id="work")])))
    answer = m.step(replay(run_id)).answers[-1][1]
    assert isinstance(answer, Failed)
    assert isinstance(answer.error, UnknownJob)
    assert letters(m)[0].replayed_as is None


@pytest.mark.behaviour("REC-4", "REC-6")
@pytest.mark.parametrize("deaths", range(4))
def test_a_bulk_replay_survives_any_death_and_replays_none_twice(deaths: int) -> None:
    m = Machine(Job(id="work"), Job(id="other"), limits=CoreLimits(bulk_runs=3))
    old = [failed(m) for _ in range(10)]
    failed(m, job_id="other"), failed(m, tenant="blue")
    done = old.pop(4)
    m.step(replay(done))
    wanted = LetterFilter(code=LetterCode.FAILED, job_id="work", tenant="default", replayed=False)
    m.step(("client", StartBulk(3, "b1", RunAction.RETRY, RunFilter(letters=wanted), "again", "ann")))
    for _ in range(deaths):
        m.restart()
    while m.state.of(Bulks).walks:
        m.step()
    assert m.store.all_of(BulkRequest)["b1"].done == 9
    replayed = [one for one in letters(m) if one.replayed_as is not None]
    assert sorted(one.id for one in replayed) == sorted([*old, done])
    again = [run for run in m.store.runs_by_id.values() if run.origin == "retry"]
    assert sorted(run.id for run in again) == sorted(one.replayed_as or "" for one in replayed), "each exactly once"


@pytest.mark.behaviour("REC-4")
def test_letters_are_dropped_one_by_one_or_by_a_filter(m: Machine) -> None:
    first, second, third = failed(m), failed(m, tenant="blue"), failed(m)
    assert m.step(("client", DropLetters(1, second))).answers == [
        ("client", ValueAnswer(1, Dropped(dropped=1, more=False)))
    ]
    assert [one.id for one in letters(m)] == [first, third]
    nobody = LetterFilter(tenant="red")
    assert m.step(("client", DropLetters(2, None, nobody))).answers == [
        ("client", ValueAnswer(2, Dropped(dropped=0, more=False)))
    ]
    assert m.step(("client", DropLetters(3, None, ALL))).answers == [
        ("client", ValueAnswer(3, Dropped(dropped=2, more=False)))
    ]
    assert letters(m) == []


# ── messages that cannot be read ────────────────────────────────────────────────────────────────────────────────────


def outcome(m: Machine, run_id: str, *rest: Any, kind: str = "Finished") -> Unread:
    return Unread(msgspec.msgpack.encode([kind, run_id, m.run(run_id).fence, *rest]), "no outcome")


@pytest.mark.behaviour("REC-5")
@pytest.mark.parametrize("kind", ["Finished", "Lost", "Returned"])
def test_an_unreadable_outcome_is_a_letter_and_a_lost_attempt_and_settled(m: Machine, kind: str) -> None:
    run_id = m.running()
    fence = m.run(run_id).fence
    first = outcome(m, run_id, 1, 0.5, kind=kind)
    m.step(("one", first))
    assert [(one.code, one.run_id, one.worker_id, one.raw) for one in letters(m)] == [
        ("poison", None, "one", first.raw)
    ]
    assert m.last.batch.of(DeadLetter) == letters(m)
    assert m.run(run_id).crashes == 1
    assert "crash 1: its outcome cannot be read: no outcome" in [one.reason for one in m.history(run_id)]
    assert m.messages(Settled) == [Settled(run_id, fence)]
    m.step(("one", replace(first, raw=msgspec.msgpack.encode([kind, run_id, fence, 1, 7.5]))))
    assert len(letters(m)) == 1, "repeated with another time, it is the same letter"
    assert m.messages(Settled)[1:] == [Settled(run_id, fence)]
    assert m.run(run_id).crashes == 1


@pytest.mark.behaviour("REC-5")
@pytest.mark.parametrize("raw", [b"\xc1", b"\x93\xa8Finished\xa2r1\xc0", b"\x93\xa8Finished\xa1\xff\x01", b"\x90", b""])
def test_a_message_that_names_no_attempt_is_a_letter_and_no_more(m: Machine, raw: bytes) -> None:
    run_id = m.running()
    m.step(("one", Unread(raw, "bad")), ("one", Unread(raw, "bad")), ("one", outcome(m, run_id, kind="LogLine")))
    assert len(letters(m)) == 2
    assert m.state_of(run_id) is State.RUNNING
    assert not m.messages(Settled)


def test_a_long_message_is_kept_in_part(m: Machine) -> None:
    m.step(("one", Unread(bytes(100_000), "e" * 5000)))
    (letter,) = letters(m)
    assert (len(letter.raw or b""), len(letter.error)) == (64 * 1024, 2000)


def hand_out(m: Machine, run_id: str, times: int) -> None:
    """Let the worker give a run back, this many times."""
    for _ in range(times):
        assert m.state_of(run_id) is State.DISPATCHED
        m.step(("one", Returned(run_id, m.run(run_id).fence, "cannot start a process")))


@pytest.mark.behaviour("ROU-7", "REC-4")
def test_a_run_that_was_handed_out_50_times_and_never_begun_is_given_up() -> None:
    machine = Machine(lanes={"main": 1})
    machine.worker_up()
    run_id, after = machine.submit(), machine.submit()
    hand_out(machine, run_id, 20)
    machine.restart()
    machine.worker_up()  # which does not hold it: the 21st time
    hand_out(machine, run_id, 28)
    assert (machine.state_of(run_id), letters(machine)) == (State.DISPATCHED, [])
    hand_out(machine, run_id, 1)
    (letter,) = letters(machine)
    expected = "handed out 50 times and never begun; the last time: cannot start a process"
    assert (letter.id, letter.code, letter.error) == (run_id, "dispatch_failed", expected)
    assert (machine.state_of(run_id), machine.state_of(after)) == (State.FAILED, State.DISPATCHED)


@pytest.mark.behaviour("ROU-7")
def test_a_run_that_has_begun_once_is_handed_out_as_often_as_it_takes() -> None:
    machine = Machine(Job(id="work", retry=Retry(max_retries=1)))
    run_id = machine.running()
    machine.finished(run_id, "failed")
    machine.advance(3)
    hand_out(machine, run_id, 60)
    assert (machine.state_of(run_id), letters(machine)) == (State.DISPATCHED, [])


@pytest.mark.behaviour("ROU-7", "ROU-8")
def test_a_wait_for_the_tenant_never_gives_a_run_up_and_explain_says_why() -> None:
    machine = Machine(tenants={"default": TenantSpec(max_running=1)})
    runs, waits = machine.running(), machine.submit()
    for _ in range(200):
        machine.advance(10)
        machine.heartbeat("one", runs)
    kinds = [str(one.kind) for one in explain(machine.state, machine.run(waits), machine.now).reasons]
    assert (machine.state_of(waits), kinds) == (State.SCHEDULED, ["tenant_limit"])
    assert "tenant_limit" not in set(LetterCode)
