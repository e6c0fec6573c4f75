"""`interlock policy diff`."""

import time
from collections import Counter
from typing import Annotated, NamedTuple

from interlock.cli.check.policy_inputs import MASKED_NOTE, policy_of, recorded_verdict, request_of_run
from interlock.cli.check.policy_test import FilesArgument
from interlock.cli.draw.listing import PIPE, SCREEN, Column, Listing
from interlock.cli.shared.options import FINDING, Flags, JsonOption, option, takes
from interlock.cli.shared.server import at_least_one, client_of, since
from interlock.error_lines import say
from interlock.interface.run_view import RunDetail
from interlock.model.policy.verdict import Verdict
from interlock.policy.velocity import Windows


class ChangedVerdict(NamedTuple):
    run: RunDetail
    before: Verdict
    after: Verdict


def _by(verdict: Verdict) -> str:
    return f"{verdict.ruling} ({verdict.rule})" if verdict.rule else str(verdict.ruling)


CHANGES = Listing[ChangedVerdict](
    "changes",
    "no verdict would change",
    Column("run", lambda change: change.run.id),
    Column("job", lambda change: change.run.job_id),
    Column("tenant", lambda change: change.run.tenant),
    Column("before", lambda change: _by(change.before), on=SCREEN),
    Column("after", lambda change: _by(change.after), on=SCREEN),
    Column("before", lambda change: change.before.ruling, on=PIPE),
    Column("before_rule", lambda change: change.before.rule, on=PIPE),
    Column("after", lambda change: change.after.ruling, on=PIPE),
    Column("rule", lambda change: change.after.rule, on=PIPE),
    Column("reason", lambda change: "; ".join((change.after.reason, *change.after.notes)), gives_way=True),
    records=True,
)


@takes("app", "strict", *FINDING)
def command(
    *,
    flags: Flags,
    paths: FilesArgument = None,
    old: Annotated[
        str | None, option("PATH", "Compare with this policy. Default: the verdicts that the runs got.")
    ] = None,
    begin: Annotated[str, option("DURATION|TIME", "Judge the runs created since then.", "--since")] = "7d",
    limit: Annotated[int, option("NUMBER", "Most runs to judge: the newest.", "--limit", "-n")] = 1000,
    json: JsonOption = False,
) -> None:
    """Judge recorded runs by the policy in files, and list those whose verdict would change.

    Piped: run, job, tenant, decision and rule before, decision and rule after, and reason, separated by tabs."""
    at_least_one("--limit", limit)
    new, _ = policy_of(flags, paths)
    earlier = None if old is None else policy_of(flags, [old])[0]
    with client_of(flags) as client:
        listed = list(client.runs(since=since(begin, "--since", time.time()), limit=limit))
        runs = [client.get(one.id) for one in reversed(listed)]
        requests = [request_of_run(client, one) for one in runs]
    found, of_old, of_new = list[ChangedVerdict](), Windows(), Windows()
    for run, request in zip(runs, requests, strict=True):
        at = run.created_at
        before = recorded_verdict(run) if earlier is None else earlier.judge(request, of_old, at)
        after = new.judge(request, of_new, at)
        # Another rule with the same decision does not count.
        if (before.ruling, before.limits) != (after.ruling, after.limits):
            found.append(ChangedVerdict(run, before, after))
    masked = new.needs_payload and any(one.secrets for one in requests)
    more = {"policy": new.id, "digest": new.digest, "judged": len(runs), "masked": masked}
    CHANGES.show(json, found, more=more)
    if json:
        return
    counts = Counter(f"{before.ruling} → {after.ruling}" for _, before, after in found)
    kinds = ", ".join(f"{count:,} {kind}" for kind, count in counts.most_common())
    say(f"{len(found):,} of {len(runs):,} runs would change{f': {kinds}' if kinds else ''}")
    if masked:
        say(MASKED_NOTE)
