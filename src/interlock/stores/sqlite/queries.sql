-- name: insert_run
INSERT INTO runs ({columns}) VALUES {rows} ON CONFLICT (id) DO NOTHING;

-- name: update_run
UPDATE runs SET ({columns}) = ({new_columns}) FROM (VALUES {rows}) AS new
WHERE runs.id = new.{new_id} AND runs.seq <= new.{new_seq};

-- name: insert_history
INSERT INTO history ({columns}) VALUES {rows} ON CONFLICT (run_id, seq) DO NOTHING;

-- name: forget_history_of_pruned
DELETE FROM history WHERE run_id = ?1 AND NOT EXISTS (SELECT 1 FROM runs WHERE id = ?1);

-- name: count_unended
SELECT count(*) FROM runs WHERE ended_at IS NULL;

-- name: raise_fences
UPDATE runs SET fence = ? WHERE ended_at IS NULL;

-- name: insert_service_row
INSERT INTO service_log (position, service, number, at, stream, size, text, change) VALUES (?, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (service, number) DO NOTHING;

-- name: prune_service
DELETE FROM service_log WHERE position IN (
  SELECT position FROM service_log INDEXED BY service_log_of_service
  WHERE service = :service AND position <= :cut AND position < :newest ORDER BY position LIMIT :limit
);

-- name: insert_key
INSERT INTO idempotency_keys (tenant, idempotency_key, run_id, digest, created_at) VALUES (?, ?, ?, ?, ?)
ON CONFLICT DO NOTHING;

-- name: free_key
UPDATE idempotency_keys SET idempotency_key = NULL WHERE run_id = ?;

-- name: prune_keys
DELETE FROM idempotency_keys WHERE number IN (SELECT value FROM json_each(:numbers));

-- name: insert_job
INSERT INTO job_versions (version, job_id, definition) VALUES (?, ?, ?) ON CONFLICT DO NOTHING;

-- name: put_schedule
INSERT INTO schedules (job_id, identity, anchor, cursor, next, paused, done, reached) VALUES (?, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (job_id) DO UPDATE SET identity = excluded.identity, anchor = excluded.anchor, cursor = excluded.cursor,
  next = excluded.next, paused = excluded.paused, done = excluded.done, reached = excluded.reached;

-- name: drop_schedule
DELETE FROM schedules WHERE job_id = ?;

-- name: prune_history
DELETE FROM history WHERE run_id IN ({pruned_ids});

-- name: find_steps
SELECT steps.number FROM runs CROSS JOIN runs AS steps INDEXED BY sqlite_autoindex_runs_1
ON steps.id > runs.id || '@' AND steps.id < runs.id || 'A'
WHERE runs.number IN (SELECT value FROM json_each(:numbers));

-- name: prune_logs
DELETE FROM logs WHERE run_id IN ({pruned_ids});

-- name: prune_checkpoints
DELETE FROM checkpoints WHERE run_id IN ({pruned_ids});

-- name: prune_payloads
DELETE FROM further_payloads WHERE run_id IN ({pruned_ids});

-- name: prune_records
DELETE FROM records WHERE run IN ({pruned_ids});

-- name: prune_runs
DELETE FROM runs WHERE number IN (SELECT value FROM json_each(:numbers));

-- name: pruned_ids
SELECT id FROM runs WHERE number IN (SELECT value FROM json_each(:numbers))

-- name: put_checkpoint
INSERT INTO checkpoints (run_id, value) VALUES (?, ?) ON CONFLICT (run_id) DO UPDATE SET value = excluded.value;

-- name: redact_line
UPDATE logs SET text = ? WHERE run_id = ? AND attempt = ? AND number = ? AND position < 0;

-- name: publish_line
UPDATE logs SET position = ? WHERE position = ?;

-- name: copy_payloads
INSERT INTO further_payloads (run_id, source, payload) SELECT ?1, source, payload FROM (
  SELECT 0 AS number, id AS source, payload FROM runs WHERE id = ?2 AND ?3
  UNION ALL
  SELECT number, source, payload FROM further_payloads WHERE run_id = ?2
)
WHERE EXISTS (SELECT 1 FROM runs WHERE id = ?1) ORDER BY number ON CONFLICT (run_id, source) DO NOTHING;

-- name: insert_log
INSERT INTO logs (position, run_id, attempt, number, at, level, text, logger) VALUES (?, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (run_id, attempt, number) DO NOTHING;

-- name: has_lease
SELECT 1 FROM leases WHERE name = ?1 AND epoch = ?2 AND token = ?3 AND token <> '';

-- name: get_lease
SELECT epoch, holder FROM leases WHERE name = ?;

-- name: take_lease
INSERT INTO leases (name, holder, token, epoch, ends_at) VALUES (:name, :holder, :token, 1, :ends_at)
ON CONFLICT (name) DO UPDATE SET holder = excluded.holder, token = excluded.token, epoch = epoch + 1, ends_at = excluded.ends_at
WHERE token = excluded.token
  OR (NOT :again AND ((token = '' AND holder IN ('', excluded.holder)) OR ends_at <= :granted_at))
RETURNING epoch;

-- name: renew_lease
UPDATE leases SET ends_at = :ends_at WHERE name = :name AND epoch = :epoch AND token = :token AND token <> '';

-- name: release_lease
UPDATE leases SET holder = :holder, token = '', ends_at = :ends_at WHERE name = :name AND token = :token;

-- name: end_leases
UPDATE leases SET ends_at = 0;

-- name: insert_audit
INSERT INTO audit ({audit_columns}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (number) DO NOTHING;

-- name: put_record
INSERT INTO records ({columns}) VALUES {rows}
ON CONFLICT (kind, id) DO UPDATE SET ({record_values}) = ({excluded_record})
WHERE excluded.seq > records.seq OR excluded.seq = 0;

-- name: forget_record
DELETE FROM records WHERE kind = ? AND id = ?;

-- name: forget_records_of_pruned
DELETE FROM records WHERE run = ?1 AND NOT EXISTS (SELECT 1 FROM runs WHERE id = ?1);

-- name: find_old_records
SELECT kind, id FROM (SELECT number, kind, id, at FROM {all_records} ORDER BY number LIMIT :limit)
WHERE number >= :unreached
AND (at < :before OR number <= (SELECT number FROM {all_records} ORDER BY number DESC LIMIT 1 OFFSET :most));

-- name: set_reach
UPDATE records SET last_run = (SELECT coalesce(max(number), 0) FROM runs) WHERE kind = 'bulk' AND last_run IS NULL;
