-- name: load_runs
SELECT {columns} FROM runs WHERE ended_at IS NULL ORDER BY id;

-- name: get_run
SELECT {columns} FROM runs WHERE id = ?;

-- name: insert_run
INSERT INTO runs ({columns}) VALUES {rows} ON CONFLICT (id) DO NOTHING;

-- name: update_run
UPDATE runs SET ({changing}) = ({new_changing}) FROM (VALUES {rows}) AS new
WHERE runs.id = new.{new_id} AND runs.seq <= new.{new_seq};

-- name: insert_history
INSERT INTO history (run_id, seq, entries) VALUES {rows} ON CONFLICT DO NOTHING;

-- name: get_history
SELECT entries FROM history WHERE run_id = ? ORDER BY seq;

-- name: insert_key
INSERT INTO idempotency_keys (tenant, idempotency_key, run_id, digest) VALUES (?, ?, ?, ?) ON CONFLICT DO NOTHING;

-- name: get_key
SELECT run_id, digest FROM idempotency_keys WHERE tenant = ? AND idempotency_key = ?;

-- name: get_id
SELECT 1 FROM runs WHERE id = ?;

-- name: insert_job
INSERT INTO job_versions (version, job_id, definition) VALUES (?, ?, ?) ON CONFLICT DO NOTHING;

-- name: load_jobs
SELECT definition FROM job_versions ORDER BY job_id, version;

-- name: put_checkpoint
INSERT INTO checkpoints (run_id, value) VALUES (?, ?) ON CONFLICT (run_id) DO UPDATE SET value = excluded.value;

-- name: get_inputs
SELECT runs.payload, checkpoints.value FROM runs LEFT JOIN checkpoints ON checkpoints.run_id = runs.id WHERE runs.id = ?;

-- name: insert_log
INSERT INTO logs (run_id, attempt, number, at, level, text) VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING;

-- name: get_logs
SELECT at, attempt, level, text FROM logs WHERE run_id = ? ORDER BY attempt, number;

-- name: insert_dead_letter
INSERT INTO dead_letters (run_id, at, code, error) VALUES (?, ?, ?, ?) ON CONFLICT DO NOTHING;

-- name: get_dead_letters
SELECT run_id, at, code, error FROM dead_letters ORDER BY rowid;

-- name: get_lease
SELECT name, holder, token, epoch, ends_at FROM leases WHERE name = ?;

-- name: put_lease
INSERT INTO leases (name, holder, token, epoch, ends_at) VALUES (?, ?, ?, ?, ?)
ON CONFLICT (name) DO UPDATE SET holder = excluded.holder, token = excluded.token, epoch = excluded.epoch, ends_at = excluded.ends_at;

-- name: end_leases
UPDATE leases SET ends_at = 0;
