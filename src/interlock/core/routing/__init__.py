"""Routing: the workers, and which of them takes a run. `roster.py` chooses the worker; `dispatch.py` dispatches the
run, or lets it wait.

- A group has a heap of workers that can take a run, by score, for each kind of room (shared, own process, suspects). An
  entry with an old `stamp` is stale, and is dropped when it reaches the top.
- A demand is what a run asks of its worker: job, topic, capabilities, labels, preferred pool, and the tenant if some
  worker is bound to tenants. `misfit` compares one worker of each group with it; `pick` compares the best workers of
  the groups that fit. A new label or other pools form all groups anew.
- Parking. A queue whose first run gets no worker is parked at its demand, and the runs behind it in the lane go on. A
  worker that joins or frees a slot opens the demands of its group, and only their queues try again. If all workers are
  merely busy, the queue keeps its turn instead.
- Lacks. `lack` says why no worker can ever meet a demand: `no_pool_mapping`, `no_workers`, `pool_overloaded`. Only then
  do looks count. The demand keeps the arrival number of each look, so the tries of a run are the looks since it
  arrived; after 50 the run is given up.
- Overload (`Worker.obstacle`) counts only in declared pools. `interlock explain` asks the same functions.
"""
