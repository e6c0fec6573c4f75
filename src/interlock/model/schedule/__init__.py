"""When a job runs: an instant, an interval or a cron expression in a time zone."""
