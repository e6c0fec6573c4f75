-- Runs with their history, the records of services and schedules, and the jobs that exist only here.

-- Numbers are given in the order of creation. What can be large comes last: a row is read from its beginning, and only as
-- far as it must be. facets is one msgpack map, NULL in a run that has none. Defaults are those of a new run.
CREATE TABLE runs (
  number INTEGER PRIMARY KEY,
  id TEXT NOT NULL UNIQUE,
  job_id TEXT NOT NULL,
  tenant TEXT NOT NULL,
  session TEXT,
  idempotency_key TEXT,
  created_at REAL NOT NULL,
  scheduled_at REAL NOT NULL,
  delay REAL,
  created_by TEXT NOT NULL,
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
  failures INTEGER NOT NULL DEFAULT 0,
  crashes INTEGER NOT NULL DEFAULT 0,
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
  heartbeats INTEGER NOT NULL DEFAULT 0,
  has_checkpoint INTEGER NOT NULL DEFAULT 0,
  parent TEXT,
  root TEXT,
  origin TEXT,
  allowed_by TEXT,
  facets BLOB,
  error TEXT,
  payload BLOB NOT NULL,
  result BLOB
);

-- The live runs, which a scheduler loads when it takes over and clients ask for most: few rows, however many have ended.
-- Its entries are as small as can be, for every run passes through: nothing and the number.
CREATE INDEX runs_live ON runs (ended_at) WHERE ended_at IS NULL;

-- What went wrong. A run that succeeds is never written here.
CREATE INDEX runs_unsuccessful ON runs (number, state, ended_at) WHERE ended_at IS NOT NULL AND state <> 'succeeded';

-- The log of a job, and how many runs it has, with and without steps of workflows.
CREATE INDEX runs_of_job ON runs (job_id, number, instr(id, '@'));

-- The runs that a run has made. Most runs are in neither.
CREATE INDEX runs_of_parent ON runs (parent, number) WHERE parent IS NOT NULL;
CREATE INDEX runs_of_root ON runs (root, number) WHERE root IS NOT NULL;

-- One row holds the transitions that one commit made, as a msgpack array; seq is that of the first.
CREATE TABLE history (
  position INTEGER PRIMARY KEY,
  run_id TEXT NOT NULL,
  seq INTEGER NOT NULL,
  entries BLOB NOT NULL
);

CREATE UNIQUE INDEX history_of_run ON history (run_id, seq);

-- Keys outlive their runs. A run that was submitted as an occurrence has a row too, with or without a key. Numbers are given in
-- the order of creation, so the oldest rows are the first.
CREATE TABLE idempotency_keys (
  number INTEGER PRIMARY KEY,
  run_id TEXT NOT NULL UNIQUE,
  tenant TEXT NOT NULL,
  idempotency_key TEXT,
  digest BLOB NOT NULL,
  created_at REAL NOT NULL
);

CREATE UNIQUE INDEX idempotency_keys_of_tenant ON idempotency_keys (tenant, idempotency_key)
WHERE idempotency_key IS NOT NULL;

-- Keys that clients made up for one call, which go sooner.
CREATE INDEX idempotency_keys_of_calls ON idempotency_keys (created_at) WHERE idempotency_key GLOB 'call-*';

CREATE TABLE job_versions (
  version TEXT NOT NULL PRIMARY KEY,
  job_id TEXT NOT NULL,
  definition BLOB NOT NULL
) WITHOUT ROWID;

CREATE TABLE checkpoints (
  run_id TEXT NOT NULL PRIMARY KEY,
  value BLOB NOT NULL
);

-- The payloads that a run got from the runs that were collapsed into it, in the order of their numbers.
CREATE TABLE further_payloads (
  number INTEGER PRIMARY KEY,
  run_id TEXT NOT NULL,
  source TEXT NOT NULL,
  payload BLOB NOT NULL
);

CREATE UNIQUE INDEX further_payloads_of_run ON further_payloads (run_id, source);

-- Positions are shared with history: no number is in both.
CREATE TABLE logs (
  position INTEGER PRIMARY KEY,
  run_id TEXT NOT NULL,
  attempt INTEGER NOT NULL,
  number INTEGER NOT NULL,
  at REAL NOT NULL,
  level TEXT NOT NULL,
  text TEXT NOT NULL,
  logger TEXT NOT NULL
);

CREATE UNIQUE INDEX logs_of_run ON logs (run_id, attempt, number);

CREATE TABLE leases (
  name TEXT NOT NULL PRIMARY KEY,
  holder TEXT NOT NULL,
  token TEXT NOT NULL,
  epoch INTEGER NOT NULL,
  ends_at REAL NOT NULL
) WITHOUT ROWID;

-- Positions are shared with history and logs: no number is in two of them. size is that of text and change in bytes;
-- change is a JSON object, in rows that tell of one.
CREATE TABLE service_log (
  position INTEGER PRIMARY KEY,
  service TEXT NOT NULL,
  number INTEGER NOT NULL,
  at REAL NOT NULL,
  stream TEXT NOT NULL,
  size INTEGER NOT NULL,
  text TEXT NOT NULL,
  change BLOB
);

CREATE UNIQUE INDEX service_log_numbers ON service_log (service, number);

-- A service's rows in order, and how much they are, without reading them.
CREATE INDEX service_log_of_service ON service_log (service, position, size);

-- The violations of a run in order. Only they are JSON with a run.
CREATE INDEX violations_of_run ON service_log (json_extract(text, '$.run_id'), position) WHERE stream = 'violation';

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

-- Entries that are only ever added; each has the hash of the one before. detail is a JSON object.
CREATE TABLE audit (
  number INTEGER PRIMARY KEY,
  at REAL NOT NULL,
  kind TEXT NOT NULL,
  actor TEXT NOT NULL,
  tenant TEXT NOT NULL,
  subject TEXT NOT NULL,
  detail TEXT NOT NULL,
  count INTEGER NOT NULL,
  previous TEXT NOT NULL,
  hash TEXT NOT NULL
);

CREATE TRIGGER audit_not_changed BEFORE UPDATE ON audit BEGIN SELECT RAISE(ABORT, 'the audit is append-only'); END;
CREATE TRIGGER audit_not_deleted BEFORE DELETE ON audit BEGIN SELECT RAISE(ABORT, 'the audit is append-only'); END;

-- Resources of any kind: their columns, and the rest as one value. Numbers are given in the order of creation. last_run is
-- the number of the last run stored before a bulk request.
CREATE TABLE records (
  number INTEGER PRIMARY KEY,
  kind TEXT NOT NULL,
  id TEXT NOT NULL,
  seq INTEGER NOT NULL,
  tenant TEXT NOT NULL,
  job TEXT NOT NULL,
  run TEXT,
  holds INTEGER NOT NULL,
  state TEXT NOT NULL,
  at REAL NOT NULL,
  due_at REAL,
  queue TEXT NOT NULL,
  order_key TEXT,
  value BLOB NOT NULL,
  last_run INTEGER,
  UNIQUE (kind, id)
);

CREATE INDEX records_of_kind ON records (kind);
CREATE INDEX records_of_run ON records (run) WHERE run IS NOT NULL;

-- Of those that keep an order, only the first is due: the others cost nothing while they wait.
CREATE INDEX records_due ON records (kind, queue, due_at) WHERE due_at IS NOT NULL AND order_key IS NULL;
CREATE INDEX records_in_order ON records (kind, order_key, number) WHERE due_at IS NOT NULL AND order_key IS NOT NULL;
