"""`interlock policy show`."""

import sys

from interlock.cli.draw.listing import Column, Listing
from interlock.cli.shared.options import FINDING, Flags, JsonOption, takes
from interlock.cli.shared.server import client_of
from interlock.error_lines import say
from interlock.model.policy.policy_info import PolicyInfo, RuleInfo

RULES = Listing[RuleInfo](
    "rules",
    "no rules are known",
    Column("rule", "id"),
    Column("decision"),
    Column("verdicts", lambda rule: ", ".join(f"{name} {count:,}" for name, count in sorted(rule.verdicts.items()))),
    Column("reason", gives_way=True),
)


@takes(*FINDING)
def command(flags: Flags, json: JsonOption = False) -> None:
    """Show the policy in force: its rules, with their verdicts since the scheduler started.

    Piped: rule, decision, verdicts and reason, separated by tabs."""
    with client_of(flags) as client:
        found = client.policy()
    if sys.stdout.isatty() and not json:
        say(_sentence(found))
    more = {name: getattr(found, name) for name in found.__struct_fields__ if name != "rules"}
    RULES.show(json, found.rules, more=more)


def _sentence(found: PolicyInfo) -> str:
    if found.digest is None:
        return "no policy is in force: every run is allowed"
    if found.remote:
        return f"a policy service judges runs, by policy {found.digest}"
    return f"policy {found.id} ({found.digest}), by default {found.default_decision}"
