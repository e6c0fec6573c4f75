"""`interlock policy explain`."""

from collections.abc import Iterator
from typing import Annotated, Any

from interlock.cli.act.submit import ParameterOption, PayloadOption
from interlock.cli.check.policy_inputs import MASKED_NOTE, policy_of, request_of_run
from interlock.cli.draw.listing import facts
from interlock.cli.draw.tables import plain, present, tabbed
from interlock.cli.shared.options import FINDING, Flags, JsonOption, argument, option, takes
from interlock.cli.shared.output import WrongUsage
from interlock.cli.shared.payloads import read_one
from interlock.cli.shared.run_options import pairs
from interlock.cli.shared.server import client_of, run_of
from interlock.error_lines import say
from interlock.fields.safe_text import safe
from interlock.model.policy.document import Case
from interlock.model.policy.verdict import PolicyRequest, Ruling, Verdict
from interlock.policy.cases import request_of
from interlock.policy.explain import Step, explain
from interlock.policy.policy import Policy


@takes("app", "strict", *FINDING)
def command(
    *,
    flags: Flags,
    given: Annotated[
        list[str] | None,
        argument("RUN PATH", "A recorded run, unless --job is given; then files and folders with the policy."),
    ] = None,
    job: Annotated[str | None, option("JOB", "Explain a hypothetical run of this job.")] = None,
    tenant: Annotated[str, option("TEXT", "Its tenant.")] = "default",
    actor: Annotated[str | None, option("TEXT", "Its submitter.")] = None,
    label: Annotated[list[str] | None, option("NAME=TEXT", "Label of the run; may be repeated.")] = None,
    payload: PayloadOption = None,
    parameter: ParameterOption = None,
    json: JsonOption = False,
) -> None:
    """Explain the verdict of a policy in files on a run: which rule matches, and why each earlier one does not. With
    --job, no server is needed. Rules with a velocity do not match here.

    Piped: the decision, rule and reason; then a line for each step with the rule, `decides` or `passes`, and text;
    separated by tabs."""
    if job is None and not given:
        raise WrongUsage("RUN: missing; give a run, or a job with --job")
    policy, jobs = policy_of(flags, given if job is not None else (given or [])[1:])
    if job is None:
        assert given
        with client_of(flags) as client:
            request = request_of_run(client, client.get(run_of(client, given[0])))
    else:
        arguments = read_one(payload, parameter or [])
        labels = pairs(label or [])
        case = Case(
            name=job, job=job, tenant=tenant, actor=actor or "", labels=labels, payload=arguments, expect=Ruling.ALLOW
        )
        request = request_of(case, jobs)
    masked = policy.needs_payload and request.secrets
    verdict, steps = policy.judge(request, None, 0.0), explain(policy, request)
    present(
        json,
        lambda: {"policy": policy.id, "digest": policy.digest, "verdict": verdict, "steps": steps, "masked": masked},
        lambda: _lines(verdict, steps),
        lambda: _drawing(policy, request, verdict, steps),
    )
    if masked and not json:
        say(MASKED_NOTE)


def _lines(verdict: Verdict, steps: list[Step]) -> Iterator[str]:
    yield tabbed(verdict.ruling, verdict.rule, verdict.reason)
    for step in steps:
        yield tabbed(step.place, "decides" if step.decides else "passes", step.text)


def _drawing(policy: Policy, request: PolicyRequest, verdict: Verdict, steps: list[Step]) -> Any:
    from rich.console import Group
    from rich.text import Text

    table = facts((f"{'→' if step.decides else ' '}  {plain(step.place)}", plain(step.text)) for step in steps)
    head = Text.assemble((str(verdict.ruling), "bold"), safe(f"  {request.job} under {policy.id}: {verdict.reason}"))
    return Group(head, Text(""), table)
