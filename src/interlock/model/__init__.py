"""Values only: what a job, a run, a state, a message and an error are."""
