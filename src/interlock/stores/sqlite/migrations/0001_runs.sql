-- Runs, their history, and what belongs to them.

-- Numbers are given in the order of creation. What can be large comes last: a row is read from its beginning, and only as
-- far as it must be.
CREATE TABLE runs (
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
  error TEXT,
  payload BLOB NOT NULL,
  result BLOB
);

-- What a scheduler loads when it takes over, and most of what is looked for: few rows, however many have ended.
-- Its entries are as small as can be, for every run passes through: nothing and the number.
CREATE INDEX runs_live ON runs (ended_at) WHERE ended_at IS NULL;

-- What went wrong. A run that succeeds is never written here.
CREATE INDEX runs_unsuccessful ON runs (number, state, ended_at) WHERE ended_at IS NOT NULL AND state <> 'succeeded';

-- One row holds the transitions that one commit made, as a msgpack array; seq is that of the first.
CREATE TABLE history (
  position INTEGER PRIMARY KEY,
  run_id TEXT NOT NULL,
  seq INTEGER NOT NULL,
  entries BLOB NOT NULL
);

CREATE UNIQUE INDEX history_of_run ON history (run_id, seq);

CREATE TABLE idempotency_keys (
  tenant TEXT NOT NULL,
  idempotency_key TEXT NOT NULL,
  run_id TEXT NOT NULL,
  digest BLOB NOT NULL,
  PRIMARY KEY (tenant, idempotency_key)
) WITHOUT ROWID;

CREATE TABLE job_versions (
  version TEXT NOT NULL PRIMARY KEY,
  job_id TEXT NOT NULL,
  definition BLOB NOT NULL
) WITHOUT ROWID;

CREATE TABLE checkpoints (
  run_id TEXT NOT NULL PRIMARY KEY,
  value BLOB NOT NULL
);

-- Positions are shared with history: no number is in both.
CREATE TABLE logs (
  position INTEGER PRIMARY KEY,
  run_id TEXT NOT NULL,
  attempt INTEGER NOT NULL,
  number INTEGER NOT NULL,
  at REAL NOT NULL,
  level TEXT NOT NULL,
  text TEXT NOT NULL
);

CREATE UNIQUE INDEX logs_of_run ON logs (run_id, attempt, number);

CREATE TABLE dead_letters (
  run_id TEXT NOT NULL PRIMARY KEY,
  at REAL NOT NULL,
  code TEXT NOT NULL,
  error TEXT NOT NULL
);

CREATE TABLE leases (
  name TEXT NOT NULL PRIMARY KEY,
  holder TEXT NOT NULL,
  token TEXT NOT NULL,
  epoch INTEGER NOT NULL,
  ends_at REAL NOT NULL
) WITHOUT ROWID;

-- Requests for many runs at once, as JSON objects. They apply to runs up to last_number, those that were there before.
CREATE TABLE bulk_requests (
  number INTEGER PRIMARY KEY,
  id TEXT NOT NULL UNIQUE,
  seq INTEGER NOT NULL,
  last_number INTEGER NOT NULL,
  request BLOB NOT NULL
);
