"""The shell around the core: collect, step, commit, send.

While one batch is being committed, the engine may decide on the next if it is large enough for a commit of its own.
Commits never overtake each other, and an answer leaves only after its own commit. The engine answers questions about
runs only when no decision waits to be stored. A run that succeeds at once takes two commits, shared with every other
run in those passes: one for submit and dispatch, one for start and end.

Effects are carried out beside the loop, one call per kind and pass, at most eight at once (`effects.py`). Their answers
get a pass of their own; if it has nothing to store, it waits for no commit, so a dispatch that needs a read is as quick
as any other. Questions to a policy service share calls: up to 100 in each, four calls at once.

The modules have an order (import-linter), share `present.py`, and know the engine above them only as calls that they
are given. Metrics are counts of the scheduler that the gateway serves: counting a pass at a time costs less than
counting each event.
"""
