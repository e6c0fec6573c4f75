"""Constraints of jobs, and what happens when one is violated.

    Pass ── rows of `deliveries` ──► commit ── Owed ──► sender ── request ──► receiver
      ▲                                                    │
      └───────────── results, answers of hooks ◄───────────┘

- The stage `constrain` (`constraints.py`) gathers answers from outside. `ReadPrevious` (the store) and `CallHook` (the
  sender) are effects; a user-defined check is a run of another job (`actions.py: cause`). The facet `constraints` of a
  run (`Guarded`) keeps answers, called runs, decision, violations and counts; after a restart the missing ones are
  asked for again under the same ids.
- `JobGuard` has, for each job with constraints, the runs that hold a place and those that must pass first. It is
  derived from the runs, as the slots of a lane are. The end of a run wakes those that wait for it, in order
  (`constraints.release`).
- Waits that could never end. A retry keeps its place in its session, so runs of two jobs could wait for each other.
  Before a run waits, `job_guard.py` follows what the others wait for; a cycle makes the action fail.
- The outbox (`actions.py: owe`, `model/delivery.py`). A webhook is a row of the commit that stores its cause. Its id is
  a hash of run, `seq` and action, so a repeated decision writes the same row. The body is rendered at once: it shows
  the run at that moment.
"""
