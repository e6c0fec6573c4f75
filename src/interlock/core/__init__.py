"""The machine: everything Interlock decides, as plain synchronous code with no clock, no random source and no I/O.

    step(state, commands, now, rng, facts) ─► Decisions(batch, sends, answers, effects, ended, wake)

Features are parts (`part.py`). `SchedulerState` has what most parts use; the rest is in slices, by type:
`state.of(Sessions)`. `Pass.of(kind)` is a memory for one pass.

The core asks the outside in two ways:

- Facts (`facts.py`) come before a step. A function beside each handler (`needs` of its part) names the keys, run ids
  and jobs that a command needs; the timetable adds fire times that may already have runs. The shell reads all of them
  for the batch while no decision waits to be stored. A batch that needs no facts waits for nothing. Ended runs are not
  in memory: a command that acts on one needs it as a fact.
- Effects (`effects.py`) come after the commit. An effect belongs to a run in one state (its `seq`) and has a time
  limit. Each answer is a command, which may be late, repeated, missing, or reach the next scheduler. Only the first
  answer to a pending effect counts; after the limit the core asks again.

A stage of the entry is a function `(Pass, Run) -> bool`, named in `stages` of its part. It returns True for a run that
it ends or keeps. To let a kept run continue, append it to `Pass.entering`; after a restart every `pending` run passes
the entry again.
"""
