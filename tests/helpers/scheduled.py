"""Jobs in a file for a server to have: with schedules that never come, that come every second, and without any."""

from pathlib import Path

DECLARED = """\
kind: Job
id: nightly
schedule: {cron: "0 2 * * *", tz: Europe/Paris}
run: {process: [cat]}
payload: {own: 1}
lane: cron
---
kind: Job
id: hourly
schedule: {cron: "0 * * * *", jitter: 10m}
run: {process: [cat]}
payload: {own: 2}
constraints: {max_concurrent_runs: 3}
---
kind: Job
id: pulse
schedule: {every: 1s}
run: {process: ["true"]}
---
kind: Job
id: beat
schedule: {every: 1s}
run: {process: ["true"]}
---
kind: Job
id: gated
schedule: {cron: "0 * * * *"}
run: {shell: "while [ ! -e go ]; do sleep 0.02; done"}
---
kind: Job
id: manual
run: {process: [cat]}
payload: {own: 3}
---
kind: Job
id: loud
run: {shell: "yes 'fifteen letters' | head -n 2000; exit 3"}
---
kind: Job
id: distant
schedule: {at: "2099-12-31T23:00:00Z"}
run: {process: ["true"]}
"""
IDS = ["nightly", "hourly", "pulse", "beat", "gated", "manual", "loud", "distant"]


def declare_jobs(folder: Path) -> Path:
    """Write the file; returns where it is."""
    path = folder / "jobs.yaml"
    path.write_text(DECLARED)
    return path
