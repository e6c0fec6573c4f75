"""Runs end to end without a policy, under rules in the process, under a service, and with results that are checked."""

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import Any

import msgspec

from bench.policy import policy_of
from interlock.bench.measures import throughput
from interlock.bench.report import ReportRow, say
from interlock.bench.server import Server, free_port, running, started
from interlock.model.policy.verdict import Ruling

RULES = 100
SCANNERS = ["secrets", "personal_data", "prompt_injection"]
VARIANTS = {
    "none": ("no policy", "none", "bench.noop"),
    "rules": (f"{RULES} rules in the process", "none", "bench.noop"),
    "service": (f"{RULES} rules in a service on this machine", "none", "bench.noop"),
    "output": (f"{RULES} rules, and rules about results", "rules", "bench.noop"),
    "text": ("results of 1 KiB, no policy", "none", "bench.text"),
    "scanned": ("the same, scanned beside the scheduler", "text", "bench.text"),
}
"""variant → what it is, the variant it is compared with, and its job"""


def _is_scanned(server: Server) -> bool:
    """Return whether every result is scanned."""
    (stored,) = server.reader.execute("SELECT max(position) FROM history").fetchone()
    position = server.reader.execute("SELECT value FROM records WHERE kind = 'memo' AND id = 'scanned'").fetchone()
    return position is None or int(position[0]) >= stored


def measure_all(folder: Path, runs: int, rounds: int) -> tuple[list[ReportRow], dict[str, Any]]:
    found: dict[str, list[float]] = {name: [] for name in VARIANTS}
    lags: list[float] = []
    for number in range(rounds):
        for name in VARIANTS if number % 2 else reversed(VARIANTS):
            with _server(folder, name) as server:
                found[name].append(throughput(server, runs, VARIANTS[name][2]))
                began = time.perf_counter()
                while not _is_scanned(server):
                    time.sleep(0.01)
                if name == "scanned":
                    lags.append(time.perf_counter() - began)
            say(f"round {number + 1}: {VARIANTS[name][0]}: {found[name][-1]:,.0f} runs/s")
    rows: list[ReportRow] = []
    ratios: dict[str, float] = {}
    for name, (what, base, _) in VARIANTS.items():
        ratios[name] = median(a / b for a, b in zip(found[name], found[base], strict=True))
        compared = "" if base == name else f"{ratios[name]:.2f} of {VARIANTS[base][0]}"
        rows.append((f"runs/s, {what}", f"{median(found[name]):,.0f}", compared))
    rows.append(("  seconds until all results are scanned, after the last run", f"{median(lags):.1f}", ""))
    return rows, {"rounds": found, "ratios": ratios, "lags": lags}


@contextmanager
def _server(folder: Path, name: str) -> Iterator[Server]:
    document = folder / "policy.yaml"
    if name in ("none", "text"):
        with running(folder, 1) as server:
            yield server
        return
    rules = [] if name == "scanned" else [msgspec.to_builtins(one) for one in policy_of(RULES).document.rules]
    policy: dict[str, Any] = {"kind": "Policy", "id": "bench", "default_decision": str(Ruling.ALLOW), "rules": rules}
    if name == "output":
        matches = {"large": {"over": "1MB"}, "secret": {"sensitivity": ["secret"]}}
        about = [{"id": id, "match": match, "decision": "quarantine"} for id, match in matches.items()]
        policy["output"] = {"rules": about}
    elif name == "scanned":
        policy["output"] = {"scanners": SCANNERS}
    document.write_bytes(msgspec.json.encode(policy))
    if name != "service":
        with running(folder, 1, document) as server:
            yield server
        return
    address = f"127.0.0.1:{free_port()}"
    command = [sys.executable, "-m", "interlock.cli", "policy", "serve", str(document), "--listen", address]
    with started(command), running(folder, 1, env={"INTERLOCK_POLICY_SERVICE": address}) as server:
        yield server
