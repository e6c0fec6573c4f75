"""Recovery: the state from the store, after a start and after a defect.

A failed commit is handled like a crash, so a restart, a take-over and a broken disk share one path: rebuild the state
from the store, and let the workers return and list their attempts.

- Returning workers. The scheduler stops every listed attempt that it does not know under that fence. A run that the
  worker should hold and does not returns to `scheduled` if it never began, and counts as a crash otherwise.
- Certain death. A worker's id, stored with the run, has its pid, start time, boot and pid namespace. A scheduler that
  takes over watches each named process with a pidfd, so a worker that died with its predecessor is lost at once instead
  of after three heartbeats. An id from another boot or namespace proves nothing; then only silence counts
  (`worker/identity.py`).
- Expected workers (`core/routing/warm_start.py`). Until they have been silent for three heartbeats, no vain look for a
  worker counts.
- Effects. After a restart no effect is pending, and the states of the runs say how to continue: a dispatched run that
  its worker does not hold returns to its lane.
- Sweeps (`sweep.py`, `engine/sweeper.py`). At a start and every 30 s, the sweeper reads the live runs from the store in
  pages and compares them with memory. The command `Sweep` names suspects. The step checks them once more against the
  store, and puts each back by the function that its timer would have called, through the entry, or as a rebuild places
  it. The simulator makes the same comparison without slack twice a second, and fails if it finds a run.
"""
