"""Runs that are made by runs: they name their parent and root, keep tenant and submitters, and gain no rights."""

from typing import Any

import pytest
from msgspec.structs import replace

from interlock.core.bulk.table import Bulks
from interlock.core.decisions import Answer, Failed
from interlock.core.state import CoreLimits
from interlock.model.access import OWNER
from interlock.model.bulk import BulkRequest, RunAction
from interlock.model.guard import Action, ActionKind, Check, Constraints
from interlock.model.job import Job
from interlock.model.policy.document import Velocity
from interlock.model.policy.verdict import Ruling, RunLimits, Verdict
from interlock.model.run import Run, RunFilter
from interlock.model.schedule.schedule import Schedule
from interlock.model.state import State
from interlock.policy.policy import Policy
from interlock.policy.velocity import Windows
from interlock.wire.approval_request import ApproveRun
from interlock.wire.claim import Claim, read_claim
from interlock.wire.message import Dispatch
from interlock.wire.request import Accepted, NewRun, StartBulk
from interlock.wire.run_request import CancelRun, RetryRun
from tests.core.machine import Machine, acted_on
from tests.core.policies import policy, rule

S = State
ALICE: dict[str, Any] = {"tenant": "acme"}


def begun(machine: Machine, actor: str = "alice", job_id: str = "work", **fields: Any) -> str:
    """A run that executes, submitted by a person."""
    if "one" not in machine.state.workers:
        machine.worker_up()
    given = NewRun(job_id, b"{}", **(ALICE | fields))
    answer = machine.step(("client", replace(machine.command(given), actor=actor))).answers[-1][1]
    assert isinstance(answer, Accepted)
    return start(machine, answer.run_ids[0])


def start(machine: Machine, run_id: str) -> str:
    assert machine.state_of(run_id) is S.DISPATCHED
    machine.started(run_id)
    return run_id


def claim_of(machine: Machine, run_id: str) -> Claim:
    """What the code of the latest attempt of a run claims."""
    sent = [one for _, one in machine.sent if isinstance(one, Dispatch) and one.run_id == run_id][-1]
    return Claim(sent.proof, sent.fence, sent.tenant, run_id)


def ask(machine: Machine, parent: str | Claim, actor: str = OWNER.name, job_id: str = "work", **fields: Any) -> Answer:
    """Submit from the code of a run."""
    claim = parent if isinstance(parent, Claim) else claim_of(machine, parent)
    new = NewRun(job_id, b"{}", **({"tenant": claim.tenant} | fields))
    create = replace(machine.command(new), actor=actor, parent=str(claim))
    return machine.step(("client", create)).answers[-1][1]


def make(machine: Machine, parent: str, actor: str = OWNER.name, **fields: Any) -> Run:
    answer = ask(machine, parent, actor, **fields)
    assert isinstance(answer, Accepted), answer
    return machine.run(answer.run_ids[0])


def refusal(answer: Answer) -> str:
    assert isinstance(answer, Failed)
    return f"{answer.error.code}: {answer.error}"


# ── who it comes from ───────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.behaviour("RUN-26")
def test_a_run_that_a_handler_submits_names_its_parent_and_root_and_keeps_tenant_and_submitters(
    machine: Machine,
) -> None:
    top = begun(machine)
    child = make(machine, top)
    assert (child.parent, child.root, child.tenant) == (top, top, "acme")
    assert (child.created_by, child.submitters) == (f"run {top}", ("alice",))
    start(machine, child.id)
    below = make(machine, child.id, actor="bob")
    assert (below.parent, below.root, below.created_by) == (child.id, top, "bob")
    assert below.submitters == ("alice", "bob"), "whoever asked for it is added"
    start(machine, below.id)
    last = make(machine, below.id)
    assert (last.parent, last.root, last.above) == (below.id, top, (child.id,))
    assert last.submitters == ("alice", "bob")
    assert [last.is_under(one) for one in (top, child.id, below.id, last.id, "other")] == [True] * 4 + [False]
    plain = machine.run(machine.submit())
    assert (plain.parent, plain.root, plain.facets, plain.submitters) == (None, None, None, ("client",))


@pytest.mark.behaviour("RUN-26")
def test_no_chain_is_too_long_to_know_who_began_it(machine: Machine) -> None:
    top = run_id = begun(machine)
    for _ in range(100):
        child = make(machine, run_id)
        start(machine, child.id)
        machine.finished(run_id)
        run_id = child.id
    run = machine.run(run_id)
    assert (run.root, run.submitters, run.tenant) == (top, ("alice",), "acme")
    assert len(run.above) == 32


@pytest.mark.behaviour("RUN-26", "RUN-23")
def test_a_retry_is_made_by_the_old_run_and_by_the_run_that_asks_for_it(machine: Machine) -> None:
    old = begun(machine)
    machine.finished(old, "failed_fatal")
    asking, stranger = begun(machine, "carol"), begun(machine, "dave", tenant="other")
    retry = RetryRun(1, old).by(actor="bob", parent=str(claim_of(machine, asking)))
    answer = machine.step(("client", retry)).answers[-1][1]
    again = machine.run(acted_on(answer).id)
    assert (again.parent, again.root, again.tenant) == (old, old, "acme")
    assert again.submitters == ("alice", "carol", "bob")
    foreign = replace(retry, parent=str(claim_of(machine, stranger)))
    assert "is not that of run" in refusal(machine.step(("client", foreign)).answers[-1][1])


@pytest.mark.behaviour("RUN-26", "RUN-25", "POL-8")
@pytest.mark.parametrize("restart", [False, True])
def test_runs_that_a_handler_retries_by_a_filter_run_on_behalf_of_its_submitters_too(restart: bool) -> None:
    machine = Machine(limits=CoreLimits(bulk_runs=1))
    failed = [begun(machine, "bob") for _ in range(2)]
    for run_id in failed:
        machine.finished(run_id, "failed")
    top = begun(machine)

    def retry(bulk_id: str, claim: str, **wanted: Any) -> Answer:
        command = StartBulk(1, bulk_id, RunAction.RETRY, RunFilter(**wanted), "again", OWNER.name, claim)
        return machine.step(("client", command)).answers[-1][1]

    claim = str(claim_of(machine, top))
    for other in ({}, {"tenant": "default"}):
        assert "is not that of run" in refusal(retry("b0", claim, **other))
    retry("b1", claim, tenant="acme")
    if restart:
        machine.restart()
    while machine.state.of(Bulks).walks:
        machine.step()
    again = [run for run in machine.state.runs.values() if run.parent in failed]
    assert [(run.submitters, run.created_by) for run in again] == [(("bob", "alice"), f"run {top}")] * 2


@pytest.mark.behaviour("RUN-26", "CON-6")
def test_runs_that_actions_and_checks_start_are_made_by_their_run() -> None:
    jobs = [
        Job(id="work", constraints=Constraints(checks=[Check(job="check")]),
            on_success=[Action(action="trigger_job", job="next")]),
        Job(id="check"), Job(id="next"),
    ]  # fmt: skip
    machine = Machine(*jobs)
    machine.worker_up()
    given = replace(machine.command(NewRun("work", b"{}", **ALICE)), actor="alice")
    answer = machine.step(("client", given)).answers[-1][1]
    assert isinstance(answer, Accepted)
    [top] = answer.run_ids
    check = next(run for run in machine.state.runs.values() if run.job_id == "check")
    machine.started(check.id)
    machine.finished(check.id, result=b"true")
    machine.started(top)
    machine.finished(top)
    after = next(run for run in machine.state.runs.values() if run.job_id == "next")
    for made in (check, after):
        assert (made.parent, made.root, made.tenant, made.submitters) == (top, top, "acme", ("alice",))


@pytest.mark.behaviour("RUN-26")
@pytest.mark.parametrize("restart", [False, True])
def test_a_dispatch_tells_a_handler_where_its_run_comes_from(restart: bool) -> None:
    machine = Machine(Job(id="work", labels={"team": "data"}))
    top = begun(machine)
    if restart:
        machine.restart_with_worker(held=[machine.held(top)])
    child = make(machine, top, labels={"step": "2"})
    found = [one for _, one in machine.sent if isinstance(one, Dispatch)][-1]
    assert (found.run_id, found.tenant, found.parent) == (child.id, "acme", top)
    assert found.labels == {"team": "data", "step": "2"}


# ── what it must not gain ───────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.behaviour("RUN-26", "RUN-7")
def test_a_claim_that_is_forged_or_of_an_attempt_that_is_over_makes_nothing(machine: Machine) -> None:
    run_id, other = begun(machine), begun(machine, "bob")
    claim, theirs = claim_of(machine, run_id), claim_of(machine, other)
    before = set(machine.store.runs_by_id)
    forged = [replace(theirs, proof=claim.proof), replace(claim, fence=2), replace(claim, proof=""),
              replace(claim, run_id="unknown"), replace(claim, proof="ä")]  # fmt: skip
    for one in forged:
        assert refusal(ask(machine, one)).startswith("forbidden: parent: the claim to be run")
    for tenant in ("default", "other"):
        assert f"tenant: '{tenant}' is not that of run '{run_id}'" in refusal(ask(machine, claim, tenant=tenant))
    machine.lost(run_id)
    machine.advance(1)
    assert machine.run(run_id).fence > claim.fence
    assert "is over" in refusal(ask(machine, claim)), "a later attempt has begun"
    machine.finished(other)
    assert "is over" in refusal(ask(machine, theirs))
    assert set(machine.store.runs_by_id) == before


@pytest.mark.parametrize("text", ["x", "a/b/c/d", "a/-1/t/r", f"a/{'9' * 19}/t/r", "/1/t"])
def test_a_claim_that_cannot_be_read_is_refused(machine: Machine, text: str) -> None:
    create = replace(machine.command(NewRun("work", b"{}")), parent=text)
    assert "bad_value: parent" in refusal(machine.step(("client", create)).answers[-1][1])


def test_a_claim_is_read_as_it_was_written() -> None:
    claim = Claim("proof", 7, "acme", "job:1000/odd")
    assert read_claim(str(claim)) == claim


@pytest.mark.behaviour("RUN-26", "SEC-2")
def test_a_handler_cannot_take_the_place_of_an_occurrence() -> None:
    machine = Machine(Job(id="work"), Job(id="nightly", schedule=Schedule(every=60, wait=30)))
    run_id = begun(machine, tenant="default")
    assert "has a schedule" in refusal(ask(machine, run_id, job_id="nightly", occurrence=machine.wall + 90))


ONLY_ALICE = policy(rule(Ruling.ALLOW, actors=("alice",)))
NOT_ALICE = policy(rule(Ruling.DENY, "no", actors=("alice",)), rule(Ruling.ALLOW, "rest", actors=("*",)))
LESS = policy(rule(Ruling.CONSTRAIN, "less", actors=("alice",), limits=RunLimits(max_runtime=5)),
              rule(Ruling.ALLOW, "rest", actors=("*",)))  # fmt: skip


@pytest.mark.behaviour("RUN-26", "POL-2")
@pytest.mark.parametrize(
    ("found", "actor", "state", "most"),
    [(ONLY_ALICE, OWNER.name, S.DISPATCHED, None), (ONLY_ALICE, "bob", S.DENIED, None),
     (NOT_ALICE, "bob", S.DENIED, None), (LESS, "bob", S.DISPATCHED, 5)],
)  # fmt: skip
def test_a_run_is_judged_for_each_of_its_submitters(
    found: Policy, actor: str, state: State, most: float | None
) -> None:
    machine = Machine()
    top = begun(machine)
    machine.policy = found
    machine.step(("", machine.define()))
    child = make(machine, top, actor)
    assert (child.state, child.limits.max_runtime) == (state, most)


@pytest.mark.behaviour("RUN-26", "POL-9")
@pytest.mark.parametrize(("refused", "state"), [("alice", S.DENIED), ("bob", S.DENIED), ("carol", S.DISPATCHED)])
def test_a_policy_service_is_asked_about_each_submitter(refused: str, state: State) -> None:
    machine = Machine(limits=CoreLimits(remote_policy=True))
    machine.remote = lambda one: Verdict(ruling=Ruling.ALLOW, policy="p1")
    top = begun(machine)
    machine.remote = lambda one: Verdict(
        ruling=Ruling.DENY if refused in (one.actor, *one.behind) else Ruling.ALLOW, policy="p1"
    )
    assert make(machine, top, "bob").state is state


@pytest.mark.behaviour("RUN-26", "POL-7")
def test_a_waiting_run_is_judged_again_for_each_submitter() -> None:
    machine = Machine(policy=policy(default=Ruling.ALLOW))
    top = begun(machine)
    machine.worker_down()
    child = make(machine, top, "bob")
    assert child.state is S.SCHEDULED
    machine.policy = NOT_ALICE
    machine.step(("", machine.define()))
    assert machine.state_of(child.id) is S.DENIED


@pytest.mark.behaviour("RUN-26", "POL-5", "POL-9")
@pytest.mark.parametrize("remote", [False, True])
@pytest.mark.parametrize("key", ["tenant", "actor", ""])
def test_a_run_of_several_submitters_counts_once_for_a_velocity(key: str, remote: bool) -> None:
    fast = rule(Ruling.DENY, "fast", velocity=Velocity(max_requests=3, window=60, key=key))
    judging, windows = policy(fast, default=Ruling.ALLOW), Windows()
    machine = Machine(policy=None if remote else judging, limits=CoreLimits(remote_policy=remote))
    machine.remote = lambda one: judging.judge(one, windows, machine.elapsed)
    top = begun(machine)
    assert [make(machine, top, "bob").state for _ in range(3)] == [S.DISPATCHED, S.DISPATCHED, S.DENIED]


@pytest.mark.behaviour("POL-8", "RUN-26")
def test_nobody_who_began_a_chain_approves_its_end() -> None:
    machine = Machine(Job(id="work"), Job(id="pay", risk_tags=("money",)),
                      policy=policy(rule(risk_tags=("money",)), default=Ruling.ALLOW))  # fmt: skip
    top = begun(machine)
    middle = make(machine, top, "bob")
    start(machine, middle.id)
    payment = make(machine, middle.id, job_id="pay")
    assert payment.state is S.APPROVAL_REQUIRED
    carols = begun(machine, "carol")

    def resolve(actor: str, parent: str = "") -> str:
        claim = str(claim_of(machine, parent)) if parent else ""
        answer = machine.step(("client", ApproveRun(1, payment.id, "looked at").by(actor=actor, parent=claim))).answers[
            -1
        ][1]
        return answer.error.code if isinstance(answer, Failed) else "approved"

    assert [resolve("alice"), resolve("bob")] == ["self_approval", "self_approval"]
    assert resolve(OWNER.name, top) == "self_approval", "nor does the code of a run of theirs"
    assert resolve(OWNER.name, carols) == "approved"
    assert machine.state_of(payment.id) is S.DISPATCHED


# ── cancelling all of it ────────────────────────────────────────────────────────────────────────────────────────────


def cascade(run_id: str, bulk_id: str = "b1") -> tuple[str, StartBulk]:
    return "client", StartBulk(1, bulk_id, RunAction.CANCEL, RunFilter(under=run_id), "enough", "ann")


@pytest.mark.behaviour("RUN-26", "RUN-25")
@pytest.mark.parametrize("restart", [False, True])
def test_a_cancel_takes_along_what_a_run_has_made_though_the_runs_between_have_ended(restart: bool) -> None:
    machine = Machine(limits=CoreLimits(bulk_runs=1))
    top, other = begun(machine), begun(machine, "bob")
    middle = make(machine, top)
    start(machine, middle.id)
    low = make(machine, middle.id)
    start(machine, low.id)
    waiting = [make(machine, low.id, at=machine.wall + 1000).id for _ in range(3)]
    kept = make(machine, other, at=machine.wall + 1000).id
    claims = [claim_of(machine, one) for one in (top, low.id)]
    machine.finished(middle.id)
    machine.step(cascade(top))
    if restart:
        machine.restart_with_worker(held=[machine.held(one) for one in (top, low.id, other)])
    for claim in claims:
        assert "is cancelled together with" in refusal(ask(machine, claim)), "before and after the request reaches it"
        machine.step()
    while machine.state.of(Bulks).walks:
        machine.step()
    assert {machine.state_of(one) for one in waiting} == {S.CANCELLED}
    assert [machine.run(one).stop for one in (top, low.id, other)] == ["cancel", "cancel", None]
    assert machine.state_of(kept) is S.PRERUN
    for claim in claims:
        assert "is cancelled together with" in refusal(ask(machine, claim))
    assert machine.run(make(machine, other).id).state is S.DISPATCHED
    bulk = machine.store.all_of(BulkRequest)["b1"]
    assert (bulk.done, bulk.asked, bulk.ended_at is not None) == (3, 2, True)


def test_a_run_that_was_asked_to_stop_before_makes_nothing_after_a_cascade(machine: Machine) -> None:
    top = begun(machine)
    machine.cancel(top)
    assert make(machine, top).parent == top, "a plain cancel lets it clean up"
    machine.step(cascade(top))
    assert "is cancelled together with" in refusal(ask(machine, top))


@pytest.mark.behaviour("RUN-26", "CON-6")
def test_a_run_that_succeeds_after_a_cascade_starts_no_other() -> None:
    then = (Action(action=ActionKind.TRIGGER_JOB, job="next"),)
    machine = Machine(Job(id="work", on_success=then), Job(id="next"))
    run_id = begun(machine)
    machine.step(("client", CancelRun(1, run_id, cascade=True)))
    machine.finished(run_id)
    run = machine.run(run_id)
    assert (run.state, list(machine.state.runs)) == (S.SUCCEEDED, [])
    assert "cancelled together with the runs that it makes" in run.notes[-1].text


def test_only_live_runs_are_chosen_by_what_is_above_them(machine: Machine) -> None:
    answer = machine.step(("client", StartBulk(1, "b", RunAction.RETRY, RunFilter(under="r"), "", "ann"))).answers[-1][
        1
    ]
    assert "choose runs to retry by root" in refusal(answer)
