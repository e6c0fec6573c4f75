"""Attempts: their signs of life, their end, and requests to stop them.

A fence is a number of the run that every dispatch raises. Every message of a worker names it; a message with another
number is counted as stale and has no effect. Losing an attempt raises the fence at once. Every dispatch also has an
attempt number that is never reused, so the record shows under its number everything that a worker began. A worker sends
an outcome until it gets `Settled`; a repeated one finds no live attempt and changes nothing.

A run has at most one live fence. Two executions of it can overlap in these cases only:

- A worker is cut off, or its host stands still, while the work already executes. After three heartbeats the run goes to
  another worker. The first execution is stopped as soon as its host is reachable again, and its messages no longer
  count.
- A worker is killed. A signal ends its executor processes a moment later; on a busy machine the run may begin elsewhere
  within that moment.
- A machine whose clocks stand still while it is paused (some virtual machines) cannot notice the pause, and may begin
  an old offer in the moment before it reads the stop.

Offers (`worker/offers.py`) keep a worker from beginning a run that has gone elsewhere, however long it stood still.

Silence counts from the moment a dispatch has really left, in elapsed time, while the scheduler's own loop turns; a slow
disk excuses nobody. The scheduler tells each worker how often to beat. Delays, retries and run times count elapsed time
too; the wall times in the record serve the next start.

The report of a failure names the exception's classes, by which the core chooses between a retry and the end. A run is
`terminating` while the output policy judges the metadata of its result, or a `post_run_hook` answers. Result and state
are one update. Webhooks about the end, and the dead letter of a run that ends badly, are rows of the same commit
(`Pass.move`; a stage that gives a run up calls `Pass.give_up`).
"""
