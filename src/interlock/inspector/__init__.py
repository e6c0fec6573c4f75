"""Scans of results, beside the scheduler: a process that reads the store, and one below it that runs the scanners.

    terminating ── metadata ─► succeeded ── position ─► inspector ── results ─► process with the scanners
         │                        │  ▲                      │
         └─► output_quarantined ◄─┘  └───── ReportScans ────┘        redacted, quarantined, or nothing

Scans cost the scheduler nothing but their findings. The inspector follows the positions of the store as the event feed
does, reads results of runs whose record is pending, and reports findings with the position it has reached. The step
acts on them and stores the position in a memo of the same commit. The scanners run at the lowest priority, with limits
on time and memory; their process is killed and replaced when one hangs. `core/output.py` has the decisions.
"""
