-- The tables of SQLite's first script, which explains them, and the functions that write them. Every text is compared by
-- its bytes. A type is the row of one argument of `commit_batch`; its fields come in the order of the model's.

CREATE TABLE leases (
  name text COLLATE "C" PRIMARY KEY,
  holder text NOT NULL,
  token text NOT NULL, -- empty: released
  epoch bigint NOT NULL,
  position bigint NOT NULL, -- the highest that was stored under it
  ends_at double precision NOT NULL,
  session text NOT NULL -- the holder's with this server: pid and start
) WITH (fillfactor = 10);

-- After the number come the fields of the model in their order, so that a new run names none of them; a plain one leaves
-- the later ones to their defaults. unsuccessful stands for its expression: an index over state would be written with every
-- transition.
CREATE TABLE runs (
  number bigint PRIMARY KEY,
  id text COLLATE "C" NOT NULL UNIQUE,
  job_id text COLLATE "C" NOT NULL,
  tenant text COLLATE "C" NOT NULL,
  session text COLLATE "C",
  idempotency_key text COLLATE "C",
  created_at double precision NOT NULL,
  scheduled_at double precision NOT NULL,
  payload bytea NOT NULL,
  delay double precision,
  created_by text COLLATE "C" NOT NULL,
  deadline_at double precision,
  job_version text COLLATE "C" NOT NULL,
  lane text COLLATE "C" NOT NULL,
  state text COLLATE "C" NOT NULL,
  previous text COLLATE "C",
  reason text COLLATE "C" NOT NULL,
  actor text COLLATE "C" NOT NULL,
  changed_at double precision NOT NULL,
  seq bigint NOT NULL,
  attempt bigint NOT NULL,
  fence bigint NOT NULL,
  worker_id text COLLATE "C",
  due_at double precision,
  origin text COLLATE "C",
  allowed_by text COLLATE "C",
  failures bigint NOT NULL DEFAULT 0,
  crashes bigint NOT NULL DEFAULT 0,
  started_at double precision,
  attempt_started_at double precision,
  stop text COLLATE "C",
  stop_reason text COLLATE "C",
  stop_actor text COLLATE "C",
  ended_at double precision,
  outcome text COLLATE "C",
  exit_code bigint,
  heartbeats bigint NOT NULL DEFAULT 0,
  has_checkpoint bigint NOT NULL DEFAULT 0,
  parent text COLLATE "C",
  root text COLLATE "C",
  facets bytea,
  error text COLLATE "C",
  result bytea,
  unsuccessful boolean GENERATED ALWAYS AS (ended_at IS NOT NULL AND state <> 'succeeded') STORED
) WITH (fillfactor = 60);

CREATE INDEX runs_live ON runs (number) WHERE ended_at IS NULL;
CREATE INDEX runs_unsuccessful ON runs (number) WHERE unsuccessful;
CREATE INDEX runs_of_job ON runs (job_id, number);
CREATE INDEX runs_of_parent ON runs (parent, number) WHERE parent IS NOT NULL;
CREATE INDEX runs_of_root ON runs (root, number) WHERE root IS NOT NULL;

CREATE TABLE history (
  position bigint PRIMARY KEY,
  run_id text COLLATE "C" NOT NULL,
  seq bigint NOT NULL,
  entries bytea NOT NULL,
  UNIQUE (run_id, seq)
);

CREATE TABLE idempotency_keys (
  number bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  run_id text COLLATE "C" NOT NULL UNIQUE,
  tenant text COLLATE "C" NOT NULL,
  idempotency_key text COLLATE "C",
  digest bytea NOT NULL,
  created_at double precision NOT NULL
);

CREATE UNIQUE INDEX idempotency_keys_of_tenant ON idempotency_keys (tenant, idempotency_key)
WHERE idempotency_key IS NOT NULL;
CREATE INDEX idempotency_keys_of_calls ON idempotency_keys (created_at) WHERE idempotency_key LIKE 'call-%';

CREATE TABLE job_versions (
  version text COLLATE "C" PRIMARY KEY,
  job_id text COLLATE "C" NOT NULL,
  definition bytea NOT NULL
);

CREATE TABLE checkpoints (
  run_id text COLLATE "C" PRIMARY KEY,
  value bytea NOT NULL
);

CREATE TABLE further_payloads (
  number bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  run_id text COLLATE "C" NOT NULL,
  source text COLLATE "C" NOT NULL,
  payload bytea NOT NULL,
  UNIQUE (run_id, source)
);

CREATE TABLE logs (
  position bigint PRIMARY KEY,
  run_id text COLLATE "C" NOT NULL,
  attempt bigint NOT NULL,
  number bigint NOT NULL,
  at double precision NOT NULL,
  level text COLLATE "C" NOT NULL,
  text text COLLATE "C" NOT NULL,
  logger text COLLATE "C" NOT NULL,
  UNIQUE (run_id, attempt, number)
);

CREATE TABLE service_log (
  position bigint PRIMARY KEY,
  service text COLLATE "C" NOT NULL,
  number bigint NOT NULL,
  at double precision NOT NULL,
  stream text COLLATE "C" NOT NULL,
  size bigint NOT NULL,
  text text COLLATE "C" NOT NULL,
  change bytea,
  UNIQUE (service, number)
);

CREATE INDEX service_log_of_service ON service_log (service, position) INCLUDE (size);
CREATE INDEX violations_of_run ON service_log (substring(text FROM '"run_id":"([^"]*)"'), position)
WHERE stream = 'violation';

CREATE TABLE schedules (
  job_id text COLLATE "C" PRIMARY KEY,
  identity text COLLATE "C" NOT NULL,
  anchor double precision NOT NULL,
  cursor double precision NOT NULL,
  next double precision,
  paused boolean NOT NULL,
  done boolean NOT NULL,
  reached double precision NOT NULL
);

CREATE TABLE audit (
  number bigint PRIMARY KEY,
  at double precision NOT NULL,
  kind text COLLATE "C" NOT NULL,
  actor text COLLATE "C" NOT NULL,
  tenant text COLLATE "C" NOT NULL,
  subject text COLLATE "C" NOT NULL,
  detail text COLLATE "C" NOT NULL,
  count bigint NOT NULL,
  previous text COLLATE "C" NOT NULL,
  hash text COLLATE "C" NOT NULL
);

CREATE FUNCTION refuse_change() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  RAISE EXCEPTION 'the audit is append-only';
END $$;

CREATE TRIGGER audit_not_changed BEFORE UPDATE OR DELETE OR TRUNCATE ON audit EXECUTE FUNCTION refuse_change();

CREATE TABLE records (
  number bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  kind text COLLATE "C" NOT NULL,
  id text COLLATE "C" NOT NULL,
  seq bigint NOT NULL,
  tenant text COLLATE "C" NOT NULL,
  job text COLLATE "C" NOT NULL,
  run text COLLATE "C",
  holds boolean NOT NULL,
  state text COLLATE "C" NOT NULL,
  at double precision NOT NULL,
  due_at double precision,
  queue text COLLATE "C" NOT NULL,
  order_key text COLLATE "C",
  value bytea NOT NULL,
  last_run bigint,
  UNIQUE (kind, id)
);

CREATE INDEX records_of_kind ON records (kind, number);
CREATE INDEX records_of_run ON records (run) WHERE run IS NOT NULL;
CREATE INDEX records_due ON records (kind, queue, due_at) WHERE due_at IS NOT NULL AND order_key IS NULL;
CREATE INDEX records_in_order ON records (kind, order_key, number) WHERE due_at IS NOT NULL AND order_key IS NOT NULL;

-- Types of rows -------------------------------------------------------------------------------------------------------

CREATE TYPE plain_run AS (
  id text, job_id text, tenant text, session text, idempotency_key text, created_at double precision,
  scheduled_at double precision, payload bytea, delay double precision, created_by text, deadline_at double precision,
  job_version text, lane text, state text, previous text, reason text, actor text, changed_at double precision,
  seq bigint, attempt bigint, fence bigint, worker_id text, due_at double precision, origin text,
  allowed_by text
);
CREATE TYPE whole_run AS (
  id text, job_id text, tenant text, session text, idempotency_key text, created_at double precision,
  scheduled_at double precision, payload bytea, delay double precision, created_by text, deadline_at double precision,
  job_version text, lane text, state text, previous text, reason text, actor text, changed_at double precision,
  seq bigint, attempt bigint, fence bigint, worker_id text, due_at double precision, origin text, allowed_by text,
  failures bigint, crashes bigint, started_at double precision, attempt_started_at double precision, stop text,
  stop_reason text,
  stop_actor text, ended_at double precision, outcome text, exit_code bigint, heartbeats bigint, has_checkpoint bigint,
  parent text, root text, facets bytea, error text, result bytea
);
CREATE TYPE entry_update AS (
  id text, lane text, state text, previous text, reason text, actor text, changed_at double precision, seq bigint,
  attempt bigint, fence bigint, worker_id text, due_at double precision
);
CREATE TYPE execution_update AS (
  id text, lane text, state text, previous text, reason text, actor text, changed_at double precision, seq bigint,
  due_at double precision, started_at double precision, attempt_started_at double precision, ended_at double precision,
  outcome text, exit_code bigint, heartbeats bigint, error text, result bytea
);
CREATE TYPE facets_update AS (id text, seq bigint, facets bytea);
CREATE TYPE whole_update AS (
  id text, deadline_at double precision, job_version text, lane text, state text, previous text, reason text, actor text,
  changed_at double precision, seq bigint, attempt bigint, fence bigint, worker_id text, due_at double precision,
  origin text, allowed_by text, failures bigint, crashes bigint, started_at double precision,
  attempt_started_at double precision,
  stop text, stop_reason text, stop_actor text, ended_at double precision, outcome text, exit_code bigint,
  heartbeats bigint, has_checkpoint bigint, parent text, root text, facets bytea, error text, result bytea
);
CREATE TYPE history_row AS (position bigint, run_id text, seq bigint, entries bytea);
CREATE TYPE log_row AS (
  position bigint, run_id text, attempt bigint, number bigint, at double precision, level text, text text, logger text
);
CREATE TYPE redacted_line AS (text text, run_id text, attempt bigint, number bigint);
CREATE TYPE published_lines AS (run_id text, first bigint);
CREATE TYPE key_row AS (tenant text, idempotency_key text, run_id text, digest bytea, created_at double precision);
CREATE TYPE checkpoint_row AS (run_id text, value bytea);
CREATE TYPE copied_payloads AS (run_id text, source text, with_own boolean);
CREATE TYPE job_row AS (version text, job_id text, definition bytea);
CREATE TYPE schedule_row AS (
  job_id text, identity text, anchor double precision, cursor double precision, next double precision, paused boolean,
  done boolean, reached double precision
);
CREATE TYPE service_row AS (
  position bigint, service text, number bigint, at double precision, stream text, size bigint, text text, change bytea
);
CREATE TYPE audit_row AS (
  number bigint, at double precision, kind text, actor text, tenant text, subject text, detail text, count bigint,
  previous text, hash text
);
CREATE TYPE record_row AS (
  kind text, id text, seq bigint, tenant text, job text, run text, holds boolean, state text, at double precision,
  due_at double precision, queue text, order_key text, value bytea
);
CREATE TYPE record_key AS (kind text, id text);

-- Functions -----------------------------------------------------------------------------------------------------------

-- A retry under way has yet to look at the rows below this number.
CREATE FUNCTION unreached(of_letters boolean) RETURNS bigint STABLE LANGUAGE sql AS $$
  SELECT coalesce(max((retry ->> 'before')::bigint), 0)
  FROM (
    SELECT convert_from(value, 'UTF8')::json AS retry FROM records WHERE kind = 'bulk' AND holds AND state = 'retry' OFFSET 0
  ) AS retries
  WHERE (retry #>> '{wanted,letters}' IS NOT NULL) = of_letters
$$;

-- The beginning of every write: return the highest position that is stored. The lock on the row makes a take-over wait for
-- a write that has passed it, and then load that; the position shows a store that has gone back.
CREATE FUNCTION pass_fence(its_name text, its_epoch bigint, its_token text, expected bigint) RETURNS bigint
LANGUAGE plpgsql AS $$
DECLARE
  current leases;
BEGIN
  SELECT * INTO current FROM leases WHERE name = its_name FOR UPDATE;
  IF NOT FOUND OR current.epoch <> its_epoch OR current.token <> its_token OR its_token = '' THEN
    RAISE EXCEPTION 'epoch % is over', its_epoch USING ERRCODE = 'IL001', DETAIL = coalesce(current.epoch, 0);
  END IF;
  IF current.position <> expected THEN
    RAISE EXCEPTION 'it ends at position %, but % was stored', current.position, expected USING ERRCODE = 'IL002';
  END IF;
  IF current.session NOT LIKE pg_backend_pid() || ' %' THEN
    -- The holder has connected again.
    UPDATE leases SET session = (
      SELECT pid || ' ' || extract(epoch FROM backend_start) FROM pg_stat_activity WHERE pid = pg_backend_pid()
    ) WHERE name = its_name;
  END IF;
  RETURN current.position;
END $$;

CREATE FUNCTION commit_batch(
  its_name text, its_epoch bigint, its_token text, expected bigint,
  plain plain_run[], whole whole_run[], entry entry_update[], execution execution_update[], of_facets facets_update[],
  everything whole_update[], transitions history_row[], lines log_row[], redacted redacted_line[],
  published published_lines[], taken key_row[], freed text[], saved checkpoint_row[], copied copied_payloads[],
  jobs job_row[], timetable schedule_row[], dropped text[], of_services service_row[], audited audit_row[],
  kept record_row[], forgotten record_key[], past text[]
) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
  highest bigint;
  reached bigint; -- the highest position with the rows of this batch
  lowest bigint; -- of the new rows
  last_number bigint;
  source copied_payloads;
BEGIN
  highest := pass_fence(its_name, its_epoch, its_token, expected);
  reached := highest;
  IF cardinality(freed) > 0 THEN
    UPDATE idempotency_keys SET idempotency_key = NULL WHERE run_id = ANY (freed);
  END IF;
  IF cardinality(taken) > 0 THEN
    INSERT INTO idempotency_keys (tenant, idempotency_key, run_id, digest, created_at)
    SELECT * FROM unnest(taken) ON CONFLICT DO NOTHING;
  END IF;
  IF cardinality(saved) > 0 THEN
    INSERT INTO checkpoints (run_id, value) SELECT * FROM unnest(saved)
    ON CONFLICT (run_id) DO UPDATE SET value = excluded.value;
  END IF;
  IF cardinality(lines) > 0 THEN
    WITH added AS (
      INSERT INTO logs (position, run_id, attempt, number, at, level, text, logger) SELECT * FROM unnest(lines)
      ON CONFLICT (run_id, attempt, number) DO NOTHING RETURNING abs(position) AS position
    )
    SELECT greatest(reached, max(position)), least(lowest, min(position)) INTO reached, lowest FROM added;
  END IF;
  IF cardinality(redacted) > 0 THEN
    UPDATE logs SET text = new.text FROM unnest(redacted) AS new
    WHERE logs.run_id = new.run_id AND logs.attempt = new.attempt AND logs.number = new.number AND logs.position < 0;
  END IF;
  IF cardinality(published) > 0 THEN
    WITH added AS (
      UPDATE logs SET position = moved.position FROM (
        SELECT held.position AS held,
          new.first + row_number() OVER (PARTITION BY held.run_id ORDER BY held.position DESC) - 1 AS position
        FROM unnest(published) AS new JOIN logs AS held ON held.run_id = new.run_id AND held.position < 0
      ) AS moved
      WHERE logs.position = moved.held RETURNING logs.position
    )
    SELECT greatest(reached, max(position)), least(lowest, min(position)) INTO reached, lowest FROM added;
  END IF;
  IF cardinality(jobs) > 0 THEN
    INSERT INTO job_versions (version, job_id, definition) SELECT * FROM unnest(jobs) ON CONFLICT DO NOTHING;
  END IF;
  IF cardinality(dropped) > 0 THEN
    DELETE FROM schedules WHERE job_id = ANY (dropped);
  END IF;
  IF cardinality(timetable) > 0 THEN
    INSERT INTO schedules (job_id, identity, anchor, cursor, next, paused, done, reached) SELECT * FROM unnest(timetable)
    ON CONFLICT (job_id) DO UPDATE SET (identity, anchor, cursor, next, paused, done, reached)
      = (excluded.identity, excluded.anchor, excluded.cursor, excluded.next, excluded.paused, excluded.done, excluded.reached);
  END IF;
  IF cardinality(of_services) > 0 THEN
    WITH added AS (
      INSERT INTO service_log (position, service, number, at, stream, size, text, change)
      SELECT * FROM unnest(of_services) ON CONFLICT (service, number) DO NOTHING RETURNING position
    )
    SELECT greatest(reached, max(position)), least(lowest, min(position)) INTO reached, lowest FROM added;
  END IF;
  IF cardinality(audited) > 0 THEN
    INSERT INTO audit (number, at, kind, actor, tenant, subject, detail, count, previous, hash)
    SELECT * FROM unnest(audited) ON CONFLICT (number) DO NOTHING;
  END IF;
  IF cardinality(forgotten) > 0 THEN
    DELETE FROM records USING unnest(forgotten) AS gone WHERE records.kind = gone.kind AND records.id = gone.id;
  END IF;
  SELECT coalesce(max(number), 0) INTO last_number FROM runs;
  IF cardinality(kept) > 0 THEN
    -- A bulk request covers the runs stored before it.
    INSERT INTO records (
      kind, id, seq, tenant, job, run, holds, state, at, due_at, queue, order_key, value, last_run
    )
    SELECT *, CASE kind WHEN 'bulk' THEN last_number END FROM unnest(kept)
    ON CONFLICT (kind, id) DO UPDATE SET (seq, tenant, job, run, holds, state, at, due_at, queue, order_key, value)
      = (excluded.seq, excluded.tenant, excluded.job, excluded.run, excluded.holds, excluded.state, excluded.at,
         excluded.due_at, excluded.queue, excluded.order_key, excluded.value)
    WHERE excluded.seq > records.seq OR excluded.seq = 0;
  END IF;
  IF cardinality(plain) > 0 THEN
    -- Numbers without gaps: runs are counted by them.
    INSERT INTO runs
    SELECT last_number + row_number() OVER (), new.* FROM unnest(plain) AS new
    WHERE NOT EXISTS (SELECT 1 FROM runs WHERE runs.id = new.id);
  END IF;
  IF cardinality(whole) > 0 THEN
    INSERT INTO runs
    SELECT last_number + row_number() OVER (), new.* FROM unnest(whole) AS new
    WHERE NOT EXISTS (SELECT 1 FROM runs WHERE runs.id = new.id);
  END IF;
  FOREACH source IN ARRAY copied LOOP
    INSERT INTO further_payloads (run_id, source, payload)
    SELECT source.run_id, found.source, found.payload FROM (
      SELECT 0 AS number, id AS source, payload FROM runs WHERE id = source.source AND source.with_own
      UNION ALL
      SELECT number, further.source, further.payload FROM further_payloads AS further WHERE run_id = source.source
    ) AS found
    WHERE EXISTS (SELECT 1 FROM runs WHERE id = source.run_id) ORDER BY found.number
    ON CONFLICT DO NOTHING;
  END LOOP;
  IF cardinality(entry) > 0 THEN
    UPDATE runs SET (lane, state, previous, reason, actor, changed_at, seq, attempt, fence, worker_id, due_at)
      = (new.lane, new.state, new.previous, new.reason, new.actor, new.changed_at, new.seq, new.attempt, new.fence,
         new.worker_id, new.due_at)
    FROM unnest(entry) AS new WHERE runs.id = new.id AND runs.seq <= new.seq;
  END IF;
  IF cardinality(execution) > 0 THEN
    UPDATE runs SET (
      lane, state, previous, reason, actor, changed_at, seq, due_at, started_at, attempt_started_at, ended_at, outcome,
      exit_code, heartbeats, error, result
    ) = (
      new.lane, new.state, new.previous, new.reason, new.actor, new.changed_at, new.seq, new.due_at, new.started_at,
      new.attempt_started_at, new.ended_at, new.outcome, new.exit_code, new.heartbeats, new.error, new.result
    )
    FROM unnest(execution) AS new WHERE runs.id = new.id AND runs.seq <= new.seq;
  END IF;
  IF cardinality(of_facets) > 0 THEN
    UPDATE runs SET seq = new.seq, facets = new.facets
    FROM unnest(of_facets) AS new WHERE runs.id = new.id AND runs.seq <= new.seq;
  END IF;
  IF cardinality(everything) > 0 THEN
    UPDATE runs SET (
      deadline_at, job_version, lane, state, previous, reason, actor, changed_at, seq, attempt, fence, worker_id, due_at,
      origin, allowed_by, failures, crashes, started_at, attempt_started_at, stop, stop_reason, stop_actor, ended_at,
      outcome, exit_code, heartbeats, has_checkpoint, parent, root, facets, error, result
    ) = (
      new.deadline_at, new.job_version, new.lane, new.state, new.previous, new.reason, new.actor, new.changed_at, new.seq,
      new.attempt, new.fence, new.worker_id, new.due_at, new.origin, new.allowed_by, new.failures, new.crashes, new.started_at,
      new.attempt_started_at, new.stop, new.stop_reason, new.stop_actor, new.ended_at, new.outcome, new.exit_code,
      new.heartbeats, new.has_checkpoint, new.parent, new.root, new.facets, new.error, new.result
    )
    FROM unnest(everything) AS new WHERE runs.id = new.id AND runs.seq <= new.seq;
  END IF;
  IF cardinality(transitions) > 0 THEN
    WITH added AS (
      INSERT INTO history (position, run_id, seq, entries) SELECT * FROM unnest(transitions)
      ON CONFLICT (run_id, seq) DO NOTHING RETURNING position
    )
    SELECT greatest(reached, max(position)), least(lowest, min(position)) INTO reached, lowest FROM added;
  END IF;
  IF cardinality(past) > 0 THEN
    DELETE FROM history WHERE run_id = ANY (past) AND NOT EXISTS (SELECT 1 FROM runs WHERE id = history.run_id);
    DELETE FROM records WHERE run = ANY (past) AND NOT EXISTS (SELECT 1 FROM runs WHERE id = records.run);
  END IF;
  IF lowest <= highest THEN
    RAISE EXCEPTION 'position % is not above %, the highest there is', lowest, highest USING ERRCODE = 'IL003';
  END IF;
  IF reached > highest THEN
    UPDATE leases SET position = reached WHERE name = its_name;
  END IF;
  RETURN reached;
END $$;

-- Delete these runs; workflows with all their steps.
CREATE FUNCTION prune_runs(its_name text, its_epoch bigint, its_token text, expected bigint, numbers bigint[])
RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
  gone text[];
  deleted bigint;
BEGIN
  PERFORM pass_fence(its_name, its_epoch, its_token, expected);
  -- A retry may have begun after the search.
  gone := ARRAY (SELECT id FROM runs WHERE number = ANY (numbers) AND number >= unreached(false));
  gone := gone || ARRAY (
    SELECT steps.id FROM unnest(gone) AS above JOIN runs AS steps ON steps.id > above || '@' AND steps.id < above || 'A'
  );
  DELETE FROM history WHERE run_id = ANY (gone);
  DELETE FROM logs WHERE run_id = ANY (gone);
  DELETE FROM checkpoints WHERE run_id = ANY (gone);
  DELETE FROM further_payloads WHERE run_id = ANY (gone);
  DELETE FROM records WHERE run = ANY (gone);
  DELETE FROM runs WHERE id = ANY (gone);
  GET DIAGNOSTICS deleted = ROW_COUNT;
  RETURN deleted;
END $$;

CREATE FUNCTION prune_keys(its_name text, its_epoch bigint, its_token text, expected bigint, numbers bigint[])
RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
  deleted bigint;
BEGIN
  PERFORM pass_fence(its_name, its_epoch, its_token, expected);
  DELETE FROM idempotency_keys WHERE number = ANY (numbers);
  GET DIAGNOSTICS deleted = ROW_COUNT;
  RETURN deleted;
END $$;

CREATE FUNCTION prune_records(
  its_name text, its_epoch bigint, its_token text, expected bigint, of_kind text, before double precision, most bigint,
  of_letters boolean, at_once bigint
) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
  deleted bigint;
  last_surplus bigint;
BEGIN
  PERFORM pass_fence(its_name, its_epoch, its_token, expected);
  SELECT number INTO last_surplus FROM records WHERE kind = of_kind ORDER BY number DESC LIMIT 1 OFFSET most;
  DELETE FROM records WHERE number IN (
    SELECT number FROM (
      SELECT number, at FROM records WHERE kind = of_kind ORDER BY number LIMIT at_once
    ) AS oldest
    WHERE number >= unreached(of_letters) AND (at < before OR number <= last_surplus)
  );
  GET DIAGNOSTICS deleted = ROW_COUNT;
  RETURN deleted;
END $$;

-- Delete the rows of these services up to these positions, but never the row with the highest position.
CREATE FUNCTION prune_services(
  its_name text, its_epoch bigint, its_token text, expected bigint, services text[], cuts bigint[], newest bigint,
  at_once bigint
) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
  deleted bigint;
BEGIN
  PERFORM pass_fence(its_name, its_epoch, its_token, expected);
  DELETE FROM service_log WHERE position IN (
    SELECT old.position FROM unnest(services, cuts) WITH ORDINALITY AS cut (service, position, number)
    JOIN service_log AS old ON old.service = cut.service AND old.position <= cut.position AND old.position < newest
    ORDER BY cut.number, old.position LIMIT at_once
  );
  GET DIAGNOSTICS deleted = ROW_COUNT;
  RETURN deleted;
END $$;
