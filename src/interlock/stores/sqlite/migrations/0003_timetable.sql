-- Where a run comes from; what is kept of schedules; and the jobs that are defined here alone.

-- Made anew, because what can be large comes last.
CREATE TABLE new_runs (
  number INTEGER PRIMARY KEY,
  id TEXT NOT NULL UNIQUE,
  job_id TEXT NOT NULL,
  tenant TEXT NOT NULL,
  session TEXT,
  idempotency_key TEXT,
  created_at REAL NOT NULL,
  scheduled_at REAL NOT NULL,
  deadline_at REAL,
  job_version TEXT NOT NULL,
  lane TEXT NOT NULL,
  state TEXT NOT NULL,
  previous TEXT,
  reason TEXT NOT NULL,
  actor TEXT NOT NULL,
  changed_at REAL NOT NULL,
  seq INTEGER NOT NULL,
  attempt INTEGER NOT NULL,
  fence INTEGER NOT NULL,
  failures INTEGER NOT NULL,
  crashes INTEGER NOT NULL,
  worker_id TEXT,
  due_at REAL,
  started_at REAL,
  attempt_started_at REAL,
  stop TEXT,
  stop_reason TEXT,
  stop_actor TEXT,
  ended_at REAL,
  outcome TEXT,
  exit_code INTEGER,
  heartbeats INTEGER NOT NULL,
  has_checkpoint INTEGER NOT NULL,
  origin TEXT,
  error TEXT,
  payload BLOB NOT NULL,
  result BLOB
);

INSERT INTO new_runs
SELECT number, id, job_id, tenant, session, idempotency_key, created_at, scheduled_at, deadline_at, job_version, lane,
  state, previous, reason, actor, changed_at, seq, attempt, fence, failures, crashes, worker_id, due_at, started_at,
  attempt_started_at, stop, stop_reason, stop_actor, ended_at, outcome, exit_code, heartbeats, has_checkpoint, NULL,
  error, payload, result
FROM runs;

DROP TABLE runs;
ALTER TABLE new_runs RENAME TO runs;

CREATE INDEX runs_live ON runs (ended_at) WHERE ended_at IS NULL;
CREATE INDEX runs_unsuccessful ON runs (number, state, ended_at) WHERE ended_at IS NOT NULL AND state <> 'succeeded';

-- The log of a job, and how many runs it has.
CREATE INDEX runs_of_job ON runs (job_id, number);

-- The cursor of a job moves in the commit that creates its occurrences. identity is what its times are made of; next may be
-- found from the others, and is here so that a start need not look for it. Up to reached there may be runs of other schedules.
CREATE TABLE schedules (
  job_id TEXT NOT NULL PRIMARY KEY,
  identity TEXT NOT NULL,
  anchor REAL NOT NULL,
  cursor REAL NOT NULL,
  next REAL,
  paused INTEGER NOT NULL,
  done INTEGER NOT NULL,
  reached REAL NOT NULL
) WITHOUT ROWID;

-- Jobs that were put, as JSON objects.
CREATE TABLE put_jobs (
  number INTEGER PRIMARY KEY,
  job_id TEXT NOT NULL UNIQUE,
  definition BLOB NOT NULL
);
