"""Job files made from crontabs, Celery beat schedules, APScheduler programs and systemd timers."""
