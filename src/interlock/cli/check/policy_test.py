"""`interlock policy test`."""

from typing import Annotated, Any

import typer

from interlock.cli.check.policy_files import policy_of
from interlock.cli.draw.tables import columns_of, plain, present, rich_table, tabbed
from interlock.cli.shared.options import Flags, JsonOption, argument, takes
from interlock.error import ExitCode
from interlock.error_lines import say
from interlock.policy.cases import CaseOutcome, run_cases

FilesArgument = Annotated[
    list[str] | None, argument("PATH", "Files and folders with the policy and its jobs. Default: the setting `files`.")
]


@takes("app", "strict")
def command(flags: Flags, paths: FilesArgument = None, json: JsonOption = False) -> None:
    """Run the cases of a policy, without a server. The exit code is 1 if one gets another verdict than expected.

    Piped: `ok` or `failed`, name, expected decision and rule, actual decision and rule, and reason, separated by
    tabs."""
    policy, jobs = policy_of(flags, paths)
    found = list(run_cases(policy, jobs))
    failed = [one for one in found if not one.passed]
    present(
        json,
        lambda: {
            "ok": not failed,
            "policy": policy.id,
            "digest": policy.digest,
            "cases": [_fields(one) for one in found],
        },
        lambda: [tabbed(*_fields(one).values()) for one in found],
        lambda: _table(found),
    )
    if not found:
        say("warning: the policy has no cases")
    elif not json:
        say(f"{len(found) - len(failed)} of {len(found)} cases passed")
    if failed:
        raise typer.Exit(ExitCode.ERROR)


def _fields(one: CaseOutcome) -> dict[str, str]:
    return {
        "result": "ok" if one.passed else "failed",
        "name": one.case.name,
        "expected": str(one.case.expect),
        "expected_rule": one.case.rule or "",
        "got": str(one.verdict.ruling),
        "rule": one.verdict.rule,
        "reason": "; ".join((one.verdict.reason, *one.verdict.notes)),
    }


def _table(found: list[CaseOutcome]) -> Any:
    from rich.text import Text

    rows: list[list[Any]] = []
    for one in found:
        mark = Text("✓", style="green") if one.passed else Text("✗", style="red")
        expected = str(one.case.expect) + ("" if one.case.rule is None else f" by {one.case.rule or 'no rule'}")
        got = f"{one.verdict.ruling} by {one.verdict.rule or 'no rule'}"
        rows.append([mark, *map(plain, (one.case.name, expected, got, _fields(one)["reason"]))])
    return rich_table(columns_of(" , case, expected, got, ~reason"), rows)
