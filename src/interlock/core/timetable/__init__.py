"""The timetable: schedules, their occurrences, and those that wait for each other.

    anchor            cursor          now          now + 10 s
      │                 │              │                │
      ●────●────●────●──●──────────────┼───────○────────┼──────────▶
      runs, or records of missed       │    in prerun,  │   not created yet;
      times: exactly one for each      │    its id made │   the heap knows when
                                       │    of the time │

A schedule is a value (`model/schedule/schedule.py`). Pure functions (`table.py`) compute its times from the
schedule and one instant, the anchor. No time is computed from the previous one, so nothing drifts.

- Every fire time is a run, whose id consists of the job and the second of its time. The commit that creates it moves
  the job's cursor behind it. So a restart continues exactly there, and a scheduler that lost its lease cannot create
  anything. A missed, overtaken or unwanted time is a run too: skipped, with the reason.
- The cost grows with what is due. A heap holds the next time of each job. Equal cron expressions share their parsed
  form and last answer; equal schedules and commands share one value. A start reads the next times from the store
  instead of computing them.
- The occurrences of a job form a series (`series.py`): those that are due and live, and those that wait. A waiting
  occurrence is in prerun without a due time, which tells it from a late one after a restart. Triggered, submitted and
  backfilled runs do not belong to the series. For a job with `max_concurrent_runs` the series lets every occurrence
  pass, and the constraint decides.
- On time. Occurrences that are due within the next moments are decided together and given to their worker ahead of
  time; the host begins each at its time (`Dispatch.hold`), so lateness contains no commit. This happens only while the
  lane is at most half full, because an occurrence waiting at a worker holds a slot. The host reports start and end of
  an occurrence up to 50 ms later, together with others (`worker/reports.py`).
- Late means more than a second after the fire time: the scheduler was down, stood still, or the clock was set forward.
  `catch_up` then decides which occurrences run; the others are recorded, in passes of bounded size.
- Times that may already have runs. When a job changes its schedule, disappears and returns, or a clock that was far
  ahead is set back, an id may be taken. The upper limit of such times is stored (`reached`), or looked up for a new
  schedule. Below it, the next pass needs the states of these runs before it creates any (`Table.unsure`). A skipped
  time may still run, under an id with `~again`, `~again2` and so on. A time has at most one record of a miss.
"""
