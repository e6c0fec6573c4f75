"""Commands that act on runs, jobs, lanes, sessions and services."""
