// Written by `python -m tools.dashboard_types`; do not edit it by hand.

export const approvals = {
  empty: "no run waits for an approval",
  columns: [
    {"title": "run", "field": "run_id", "form": "text", "right": false, "spare": 0, "wide": false},
    {"title": "job", "field": "job_id", "form": "text", "right": false, "spare": 0, "wide": false},
    {"title": "rule", "field": "rule", "form": "text", "right": false, "spare": 1, "wide": false},
    {"title": "asked by", "field": "created_by", "form": "text", "right": false, "spare": 0, "wide": false},
    {"title": "waits", "field": "asked_at", "form": "age", "right": true, "spare": 0, "wide": false},
    {"title": "expires in", "field": "expires_at", "form": "ahead", "right": true, "spare": 0, "wide": false},
    {"title": "payload", "field": "payload", "form": "json", "right": false, "spare": 0, "wide": true},
  ],
} as const

export const children = {
  empty: "no names",
  columns: [
    {"title": "name", "field": "name", "form": "text", "right": false, "spare": 0, "wide": false},
    {"title": "kind", "field": "kind", "form": "text", "right": false, "spare": 1, "wide": false},
    {"title": "status", "field": "status", "form": "text", "right": false, "spare": 0, "wide": false},
    {"title": "pid", "field": "pid", "form": "own", "right": true, "spare": 4, "wide": false},
    {"title": "up", "field": null, "form": "age", "right": true, "spare": 5, "wide": false},
    {"title": "restarts", "field": "restarts", "form": "count", "right": true, "spare": 3, "wide": false},
    {"title": "next try", "field": "next_try_at", "form": "own", "right": false, "spare": 6, "wide": false},
    {"title": "last exit", "field": null, "form": "own", "right": false, "spare": 2, "wide": false},
    {"title": "why", "field": null, "form": "text", "right": false, "spare": 0, "wide": true},
  ],
} as const

export const deliveries = {
  empty: "no webhooks are owed or were sent",
  columns: [
    {"title": "delivery", "field": "id", "form": "own", "right": false, "spare": 0, "wide": false},
    {"title": "age", "field": "created_at", "form": "age", "right": true, "spare": 0, "wide": false},
    {"title": "event", "field": "event", "form": "own", "right": false, "spare": 0, "wide": false},
    {"title": "job", "field": "job_id", "form": "text", "right": false, "spare": 0, "wide": false},
    {"title": "run", "field": "run_id", "form": "text", "right": false, "spare": 1, "wide": false},
    {"title": "target", "field": "target", "form": "own", "right": false, "spare": 0, "wide": false},
    {"title": "what", "field": null, "form": "own", "right": false, "spare": 0, "wide": true},
  ],
} as const

export const entries = {
  empty: "no entries of the audit match",
  columns: [
    {"title": "entry", "field": "number", "form": "number", "right": true, "spare": 0, "wide": false},
    {"title": "age", "field": "at", "form": "age", "right": true, "spare": 0, "wide": false},
    {"title": "kind", "field": "kind", "form": "text", "right": false, "spare": 0, "wide": false},
    {"title": "actor", "field": "actor", "form": "text", "right": false, "spare": 0, "wide": false},
    {"title": "subject", "field": "subject", "form": "text", "right": false, "spare": 0, "wide": false},
    {"title": "detail", "field": null, "form": "text", "right": false, "spare": 0, "wide": true},
  ],
} as const

export const failures = {
  empty: "no run has failed in this time",
  columns: [
    {"title": "runs", "field": "count", "form": "number", "right": true, "spare": 0, "wide": false},
    {"title": "job", "field": "job", "form": "text", "right": false, "spare": 0, "wide": false},
    {"title": "newest", "field": "newest", "form": "age", "right": true, "spare": 0, "wide": false},
    {"title": "oldest", "field": "oldest", "form": "age", "right": true, "spare": 1, "wide": false},
    {"title": "run", "field": "run", "form": "text", "right": false, "spare": 2, "wide": false},
    {"title": "error", "field": "error", "form": "text", "right": false, "spare": 0, "wide": true},
  ],
} as const

export const jobs = {
  empty: "no jobs are declared; interlock init writes a project with some",
  columns: [
    {"title": "job", "field": "id", "form": "text", "right": false, "spare": 0, "wide": false},
    {"title": "schedule", "field": "schedule_text", "form": "text", "right": false, "spare": 0, "wide": true},
    {"title": "next", "field": null, "form": "own", "right": false, "spare": 0, "wide": false},
    {"title": "fires", "field": "next_at", "form": "own", "right": false, "spare": 1, "wide": false},
    {"title": "last run", "field": "last_run", "form": "own", "right": false, "spare": 0, "wide": false},
    {"title": "live", "field": "live", "form": "count", "right": true, "spare": 0, "wide": false},
    {"title": "other code", "field": null, "form": "text", "right": false, "spare": 0, "wide": false},
  ],
} as const

export const lanes = {
  empty: "no lane has runs or limits of its own",
  columns: [
    {"title": "lane", "field": "id", "form": "text", "right": false, "spare": 0, "wide": false},
    {"title": "limit", "field": "limit", "form": "number", "right": true, "spare": 0, "wide": false},
    {"title": "active", "field": "active", "form": "number", "right": true, "spare": 0, "wide": false},
    {"title": "waiting", "field": "waiting", "form": "number", "right": true, "spare": 0, "wide": false},
    {"title": "oldest wait", "field": "oldest_wait", "form": "length", "right": true, "spare": 0, "wide": false},
    {"title": "rate", "field": null, "form": "text", "right": false, "spare": 0, "wide": false},
    {"title": "status", "field": "status", "form": "text", "right": false, "spare": 0, "wide": false},
    {"title": "declared", "field": null, "form": "text", "right": false, "spare": 0, "wide": true},
  ],
} as const

export const letters = {
  empty: "there are no dead letters",
  columns: [
    {"title": "letter", "field": "id", "form": "text", "right": false, "spare": 0, "wide": false},
    {"title": "age", "field": "at", "form": "age", "right": true, "spare": 0, "wide": false},
    {"title": "code", "field": "code", "form": "text", "right": false, "spare": 0, "wide": false},
    {"title": "job", "field": "job_id", "form": "text", "right": false, "spare": 0, "wide": false},
    {"title": "error", "field": null, "form": "text", "right": false, "spare": 0, "wide": true},
  ],
} as const

export const nodes = {
  empty: "no node is known",
  columns: [
    {"title": "node", "field": "name", "form": "text", "right": false, "spare": 0, "wide": false},
    {"title": "state", "field": null, "form": "text", "right": false, "spare": 0, "wide": false},
    {"title": "roles", "field": "roles", "form": "own", "right": false, "spare": 0, "wide": true},
    {"title": "version", "field": "version", "form": "text", "right": false, "spare": 3, "wide": false},
    {"title": "up", "field": "since", "form": "age", "right": true, "spare": 1, "wide": false},
    {"title": "heard", "field": "silent", "form": "length", "right": true, "spare": 2, "wide": false},
    {"title": "clock", "field": "clock", "form": "own", "right": true, "spare": 0, "wide": false},
    {"title": "differs", "field": "differs", "form": "own", "right": false, "spare": 0, "wide": false},
  ],
} as const

export const pools = {
  empty: "no pools are declared, and no worker has joined",
  columns: [
    {"title": "pool", "field": "id", "form": "text", "right": false, "spare": 0, "wide": false},
    {"title": "status", "field": "status", "form": "text", "right": false, "spare": 0, "wide": false},
    {"title": "workers", "field": "workers", "form": "number", "right": true, "spare": 0, "wide": false},
    {"title": "ready", "field": "ready", "form": "number", "right": true, "spare": 0, "wide": false},
    {"title": "active", "field": "active", "form": "number", "right": true, "spare": 0, "wide": false},
    {"title": "slots", "field": "slots", "form": "number", "right": true, "spare": 0, "wide": false},
    {"title": "topics", "field": "topics", "form": "own", "right": false, "spare": 0, "wide": true},
    {"title": "offers", "field": "offers", "form": "own", "right": false, "spare": 2, "wide": false},
    {"title": "requires", "field": "requires", "form": "own", "right": false, "spare": 1, "wide": false},
    {"title": "declared", "field": null, "form": "text", "right": false, "spare": 3, "wide": false},
  ],
} as const

export const rights = {
  empty: "nothing is allowed",
  columns: [
    {"title": "permission", "field": "permission", "form": "text", "right": false, "spare": 0, "wide": false},
    {"title": "allowed", "field": null, "form": "text", "right": false, "spare": 0, "wide": false},
    {"title": "reason", "field": "reason", "form": "text", "right": false, "spare": 0, "wide": true},
  ],
} as const

export const runs = {
  empty: "no runs match; to make one: interlock submit JOB",
  columns: [
    {"title": "run", "field": "id", "form": "text", "right": false, "spare": 0, "wide": false},
    {"title": "job", "field": "job_id", "form": "text", "right": false, "spare": 0, "wide": false},
    {"title": "state", "field": "state", "form": "text", "right": false, "spare": 0, "wide": false},
    {"title": "age", "field": "created_at", "form": "age", "right": true, "spare": 0, "wide": false},
    {"title": "took", "field": null, "form": "length", "right": true, "spare": 0, "wide": false},
    {"title": "what", "field": null, "form": "text", "right": false, "spare": 0, "wide": true},
  ],
} as const

export const services = {
  empty: "no services are declared",
  columns: [
    {"title": "service", "field": "name", "form": "text", "right": false, "spare": 0, "wide": false},
    {"title": "kind", "field": "kind", "form": "text", "right": false, "spare": 1, "wide": false},
    {"title": "status", "field": "status", "form": "text", "right": false, "spare": 0, "wide": false},
    {"title": "pid", "field": "pid", "form": "own", "right": true, "spare": 2, "wide": false},
    {"title": "up", "field": "since", "form": "age", "right": true, "spare": 0, "wide": false},
    {"title": "restarts", "field": "restarts", "form": "count", "right": true, "spare": 0, "wide": false},
    {"title": "why", "field": null, "form": "text", "right": false, "spare": 0, "wide": true},
  ],
} as const

export const sessions = {
  empty: "no session has runs that have not ended",
  columns: [
    {"title": "session", "field": null, "form": "text", "right": false, "spare": 0, "wide": false},
    {"title": "tenant", "field": "tenant", "form": "text", "right": false, "spare": 0, "wide": false},
    {"title": "active", "field": null, "form": "own", "right": true, "spare": 0, "wide": false},
    {"title": "waiting", "field": null, "form": "own", "right": true, "spare": 0, "wide": false},
    {"title": "oldest wait", "field": "oldest_wait", "form": "length", "right": true, "spare": 0, "wide": false},
    {"title": "status", "field": null, "form": "text", "right": false, "spare": 0, "wide": false},
  ],
} as const

export const tenants = {
  empty: "no tenants are declared",
  columns: [
    {"title": "tenant", "field": "id", "form": "text", "right": false, "spare": 0, "wide": false},
    {"title": "running", "field": "running", "form": "number", "right": true, "spare": 0, "wide": false},
    {"title": "max", "field": "max_running", "form": "number", "right": true, "spare": 0, "wide": false},
    {"title": "waiting", "field": "waiting", "form": "number", "right": true, "spare": 0, "wide": false},
    {"title": "max", "field": "max_waiting", "form": "number", "right": true, "spare": 0, "wide": false},
    {"title": "rate", "field": null, "form": "text", "right": false, "spare": 0, "wide": false},
    {"title": "over limit", "field": "over_limit", "form": "text", "right": false, "spare": 0, "wide": false},
    {"title": "refused", "field": "refused", "form": "number", "right": true, "spare": 0, "wide": false},
    {"title": "lanes", "field": null, "form": "text", "right": false, "spare": 0, "wide": true},
  ],
} as const

export const waiting = {
  empty: "no runs wait",
  columns: [
    {"title": "runs", "field": "count", "form": "number", "right": true, "spare": 0, "wide": false},
    {"title": "oldest", "field": "since", "form": "age", "right": true, "spare": 0, "wide": false},
    {"title": "reason", "field": "kind", "form": "text", "right": false, "spare": 0, "wide": false},
    {"title": "of", "field": "name", "form": "text", "right": false, "spare": 2, "wide": false},
    {"title": "job", "field": "job", "form": "text", "right": false, "spare": 1, "wide": false},
    {"title": "run", "field": "run", "form": "text", "right": false, "spare": 3, "wide": false},
    {"title": "the oldest", "field": "text", "form": "text", "right": false, "spare": 0, "wide": true},
  ],
} as const

export const workers = {
  empty: "no workers are connected",
  columns: [
    {"title": "worker", "field": "id", "form": "text", "right": false, "spare": 0, "wide": false},
    {"title": "pool", "field": "pool", "form": "text", "right": false, "spare": 0, "wide": false},
    {"title": "connected", "field": null, "form": "text", "right": false, "spare": 1, "wide": false},
    {"title": "state", "field": "state", "form": "text", "right": false, "spare": 0, "wide": false},
    {"title": "runs", "field": null, "form": "text", "right": false, "spare": 0, "wide": false},
    {"title": "cpu", "field": "cpu", "form": "own", "right": true, "spare": 0, "wide": false},
    {"title": "memory", "field": "memory", "form": "own", "right": true, "spare": 0, "wide": false},
    {"title": "gpu", "field": "gpu", "form": "own", "right": true, "spare": 0, "wide": false},
    {"title": "heard", "field": "heard_ago", "form": "length", "right": true, "spare": 0, "wide": false},
    {"title": "offers", "field": null, "form": "own", "right": false, "spare": 0, "wide": true},
  ],
} as const

export const workflows = {
  empty: "no workflow is under way",
  columns: [
    {"title": "run", "field": "run_id", "form": "text", "right": false, "spare": 0, "wide": false},
    {"title": "workflow", "field": "job_id", "form": "text", "right": false, "spare": 0, "wide": false},
    {"title": "status", "field": "status", "form": "text", "right": false, "spare": 0, "wide": false},
    {"title": "for", "field": "started_at", "form": "age", "right": true, "spare": 0, "wide": false},
    {"title": "done", "field": "ended", "form": "count", "right": true, "spare": 0, "wide": false},
    {"title": "live", "field": "live", "form": "count", "right": true, "spare": 1, "wide": false},
    {"title": "what", "field": "waits_for", "form": "text", "right": false, "spare": 0, "wide": true},
  ],
} as const
