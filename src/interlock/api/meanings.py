"""What parameters, fields and error codes mean, for the description of the interface and the reference made of it."""

_SCHEDULE = {
    "once": "`true`: once, after `wait`.",
    "at": "Once, at this time.",
    "every": "At this interval, for the first time after `wait`.",
    "cron": "By an expression of five fields: minute, hour, day of month, month, day of week.",
    "tz": "The time zone of `cron`, or of an `at` without one; UTC by default.",
    "wait": "How long after the job is first known `once` fires, or `every` for the first time.",
    "jitter": "Within this time after each of its times the job has its own place, always the same.",
    "catch_up": "Which of the occurrences whose time has passed unheard are run: `none`, the `latest` (default), or "
    "`all`.",
    "catch_up_window": "How late they may be run; 60s by default.",
    "catch_up_max": "How many of them are run at the most; 100 by default.",
    "keep": "Whether an `at` job stays after its run.",
}
_JOB_BODY = {
    "run": "What it does.",
    "schedule": "When; without one it runs when it is submitted or triggered.",
    "payload": "What its runs are given when nobody says otherwise.",
    "lane": "The lane whose slots its runs take; `main` by default.",
    "retry": "How a failed run is tried again; not at all by default.",
    "deadline": "How long after it is due a run must have ended.",
    "max_runtime": "How long a run may take, from its first start and over all attempts.",
    "max_runtime_per_attempt": "`true`: `max_runtime` counts anew for each attempt.",
    "max_crashes": "How often its process may die under a run; 3 by default.",
    "grace": "Time between being asked to stop and TERM, and between TERM and KILL; a process gets TERM at once, and "
    "KILL after it. 10s by default.",
    "constraints": "Bounds on its runs.",
    "env": "Variables of a process; null takes one away.",
    "cwd": "The folder of a process.",
    "limits": "What a process may take.",
    "stdin": "`false`: a process is not given the payload on its standard input.",
}
FIELDS: dict[str, dict[str, str]] = {
    "JobBody": _JOB_BODY,
    "NamedJobBody": {"id": "Its id."} | _JOB_BODY,
    "JobsBody": {"jobs": "The jobs, each as it is put alone, and with its `id`."},
    "ScheduleBody": _SCHEDULE,
    "WorkBody": {
        "process": "A program and its arguments. It gets the payload on its standard input; its exit code decides, and "
        "what it prints is the log.",
        "shell": "A text for `/bin/sh`, run in the same way.",
        "function": "A function, as `module:name` or `path/to/file.py:name`.",
    },
    "RetryBody": {
        "max_retries": "How often it is tried again. By default 3 times with a schedule, and not at all without.",
        "initial_delay": "The first delay; 2s by default.",
        "multiplier": "By how much each delay is longer than the one before; 2 by default.",
        "max_delay": "The longest delay; 30s by default.",
        "jitter": "By which part of it each delay may be longer or shorter; 0.25 by default.",
    },
    "ConstraintsBody": {"max_concurrent_runs": "How many of its occurrences may be live at once; 1 by default."},
    "LimitsBody": {
        "memory": "Of address space, as in `512MiB`, or bytes.",
        "cpu": "Of processor time; then it is killed.",
        "files": "Open files.",
        "processes": "Of the same user.",
    },
    "Schedule": _SCHEDULE,
}
"""of jobs and schedules: by the name of the type, then of the field"""
