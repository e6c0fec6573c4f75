"""The process beside the scheduler that makes requests to other systems: webhooks and hooks."""
