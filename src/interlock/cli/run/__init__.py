"""Commands that run the scheduler and workers."""
