"""The cost of a verdict: policies of 10 to 10,000 rules, requests for many topics and tenants."""

import time
from pathlib import Path
from random import Random
from statistics import median
from typing import Any

from interlock.bench.report import ReportRow, say
from interlock.model.policy.document import Match, PolicyDocument, Rule
from interlock.model.policy.verdict import PolicyRequest, Ruling
from interlock.policy.policy import Policy

SIZES = (10, 100, 1_000, 10_000)
REQUESTS = 20_000
TENANTS = 50


def measure_all(folder: Path, rounds: int) -> tuple[list[ReportRow], dict[str, Any]]:
    policies = {size: policy_of(size) for size in SIZES}
    found: dict[int, list[float]] = {size: [] for size in SIZES}
    for _ in range(rounds):
        for size, policy in policies.items():
            found[size].append(verdict_cost(policy, size))
    costs = {size: round(median(found[size]) * 1e6, 2) for size in SIZES}
    for size, cost in costs.items():
        say(f"a verdict over {size:,} rules: {cost:.2f} µs")
    first = costs[SIZES[0]]
    rows = [
        (f"a verdict over {size:,} rules, µs", f"{cost:.2f}", f"{cost / first:.1f} times that over {SIZES[0]}")
        for size, cost in costs.items()
    ]
    return rows, {"verdict_us": costs}


def policy_of(size: int) -> Policy:
    """Return a policy with rules of five kinds: by prefix, by name and tenant, by label, by tag, by actor."""
    matches = (
        lambda n: Match(topics=[f"team{n}.*"]),
        lambda n: Match(topics=[f"job{n}"], tenants=[f"t{n % TENANTS}"]),
        lambda n: Match(tenants=[f"t{n % TENANTS}"], labels={"env": "production"}),
        lambda n: Match(topics=[f"job{n}", "other.*"], risk_tags=["money"]),
        lambda n: Match(topics=[f"a{n % 7}.*"], actors=[f"user{n}*"]),
    )
    rules = tuple(Rule(id=f"r{n}", match=matches[n % len(matches)](n), decision=Ruling.ALLOW) for n in range(size))
    return Policy(PolicyDocument(id="bench", rules=rules))


def verdict_cost(policy: Policy, size: int) -> float:
    """Return the average seconds of one verdict; about half of the requests match no rule."""
    rng = Random(1)
    requests = []
    for _ in range(REQUESTS):
        number = rng.randrange(size)
        requests.append(
            PolicyRequest(
                job="job",
                topic=rng.choice((f"job{number}", f"team{number}.x", "a3.b", "other.x", "unknown")),
                tenant=f"t{rng.randrange(TENANTS + 10)}",
                actor=f"user{number}",
                labels={"env": rng.choice(("production", "test"))},
                risk_tags=rng.choice(((), ("money",))),
            )
        )
    begun = time.perf_counter()
    for request in requests:
        policy.judge(request, None, 0.0)
    return (time.perf_counter() - begun) / REQUESTS
