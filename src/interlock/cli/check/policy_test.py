"""`interlock policy test`."""

from typing import Annotated

import typer

from interlock.cli.check.policy_inputs import policy_of
from interlock.cli.draw.listing import PIPE, SCREEN, Column, Listing
from interlock.cli.shared.options import Flags, JsonOption, argument, takes
from interlock.error import ExitCode
from interlock.error_lines import say
from interlock.policy.cases import CaseOutcome, run_cases

FilesArgument = Annotated[
    list[str] | None, argument("PATH", "Files and folders with the policy and its jobs. Default: the setting `files`.")
]


def _by(decision: object, rule: str | None) -> str:
    return str(decision) if rule is None else f"{decision} by {rule or 'no rule'}"


CASES = Listing[CaseOutcome](
    "cases",
    "the policy has no cases",
    Column(" ", lambda one: "✓" if one.passed else "✗", on=SCREEN, colours={"✓": "green", "✗": "red"}),
    Column("result", lambda one: "ok" if one.passed else "failed", on=PIPE),
    Column("case", lambda one: one.case.name, on=SCREEN),
    Column("expected", lambda one: _by(one.case.expect, one.case.rule), on=SCREEN),
    Column("got", lambda one: _by(one.verdict.ruling, one.verdict.rule), on=SCREEN),
    Column("name", lambda one: one.case.name, on=PIPE),
    Column("expected", lambda one: one.case.expect, on=PIPE),
    Column("expected_rule", lambda one: one.case.rule or "", on=PIPE),
    Column("got", lambda one: one.verdict.ruling, on=PIPE),
    Column("rule", lambda one: one.verdict.rule, on=PIPE),
    Column("reason", lambda one: "; ".join((one.verdict.reason, *one.verdict.notes)), gives_way=True),
    records=True,
)


@takes("app", "strict")
def command(flags: Flags, paths: FilesArgument = None, json: JsonOption = False) -> None:
    """Run the cases of a policy, without a server. The exit code is 1 if one gets another verdict than expected.

    Piped: `ok` or `failed`, name, expected decision and rule, actual decision and rule, and reason, separated by
    tabs."""
    policy, jobs = policy_of(flags, paths)
    found = list(run_cases(policy, jobs))
    failed = [one for one in found if not one.passed]
    CASES.show(json, found, more={"ok": not failed, "policy": policy.id, "digest": policy.digest})
    if not found:
        say("warning: the policy has no cases")
    elif not json:
        say(f"{len(found) - len(failed)} of {len(found)} cases passed")
    if failed:
        raise typer.Exit(ExitCode.ERROR)
