"""A policy for the jobs of the tests: some need an approval, some are denied, some are limited."""

from pathlib import Path

POLICY = """\
kind: Policy
id: test
default_decision: allow
rules:
  - id: money
    match: {topics: [echo.thread, count]}
    decision: require_approval
    reason: money moves
  - id: never
    match: {topics: [fail]}
    decision: deny
    reason: it never works
  - id: brief
    match: {topics: [add]}
    decision: allow_with_constraints
    limits: {max_runtime: 90s, tools: [grep, sed]}
"""
ASKS, DENIED, LIMITED = "echo.thread", "fail", "add"


def write_policy(place: Path, text: str = POLICY) -> str:
    """Return the path of the file with the policy."""
    path = place / "policy.yaml"
    path.write_text(text)
    return str(path)
