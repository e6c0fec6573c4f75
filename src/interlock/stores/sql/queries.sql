-- name: load_runs
SELECT {loaded} FROM runs INDEXED BY runs_live WHERE ended_at IS NULL ORDER BY number;

-- name: load_log_sizes
SELECT logs.run_id, count(*), CAST(sum({log_bytes}) AS BIGINT), min(logs.number) < 0
FROM runs INDEXED BY runs_live CROSS JOIN logs INDEXED BY logs_of_run ON logs.run_id = runs.id
WHERE runs.ended_at IS NULL AND runs.attempt > 0 GROUP BY logs.run_id;

-- name: load_log_marks
SELECT runs.id, runs.attempt, count(*)
FROM runs INDEXED BY runs_live CROSS JOIN logs INDEXED BY logs_of_run ON logs.run_id = runs.id AND logs.attempt = runs.attempt AND logs.number > 0
WHERE runs.ended_at IS NULL AND runs.attempt > 0 GROUP BY runs.id, runs.attempt HAVING count(*) = max(logs.number);

-- name: get_run
SELECT {all_columns} FROM runs WHERE id = ?;

-- name: list_runs
SELECT number, {listed} FROM {place}
AND number < :before AND number > :floor
AND (:states IS NULL OR state IN {states})
AND (:job_id IS NULL OR job_id = :job_id)
AND (:tenant IS NULL OR tenant = :tenant)
AND (:session IS NULL OR session = :session)
AND (:lane IS NULL OR lane = :lane)
AND (:created_by IS NULL OR created_by = :created_by)
AND (:since IS NULL OR created_at >= :since)
AND (:until IS NULL OR created_at < :until)
AND CASE WHEN :is_step = ({find}(id, '@') = 0) THEN false ELSE :live IS NULL OR (ended_at IS NULL) = :live END
ORDER BY number DESC LIMIT :limit;

-- name: get_numbered
SELECT number, {listed} FROM runs WHERE number IN {numbers} ORDER BY number DESC;

-- name: find_floor_of_all
SELECT floor FROM (SELECT {least}(:before, (SELECT max(number) + 1 FROM runs)) - :most - 1 AS floor) AS lowest
WHERE floor >= (SELECT min(number) FROM runs);

-- name: find_floor
SELECT number FROM {place} AND number < :before ORDER BY number DESC LIMIT 1 OFFSET :most;

-- name: all_runs
runs NOT INDEXED WHERE true

-- name: live_runs
runs INDEXED BY runs_live WHERE ended_at IS NULL

-- name: runs_by_id
runs WHERE number IN (
  SELECT number FROM runs INDEXED BY sqlite_autoindex_runs_1
  WHERE id >= :id_prefix AND id < :id_prefix || {last_character} ORDER BY id DESC LIMIT :most_with_prefix
) AND (:parent IS NULL OR parent = :parent) AND (:root IS NULL OR root = :root)

-- name: runs_of_job
runs INDEXED BY runs_of_job WHERE job_id = :job_id

-- name: runs_of_parent
runs INDEXED BY runs_of_parent WHERE parent = :parent AND (:root IS NULL OR root = :root)

-- name: runs_of_root
runs INDEXED BY runs_of_root WHERE root = :root

-- name: unsuccessful_runs
runs INDEXED BY runs_unsuccessful WHERE {is_unsuccessful}

-- name: count_live
SELECT job_id, count(*) FROM {live_runs} AND (:tenant IS NULL OR tenant = :tenant) GROUP BY job_id;

-- name: get_history
SELECT entries FROM history INDEXED BY history_of_run WHERE run_id = :run_id ORDER BY seq;

-- name: get_positions
SELECT coalesce((SELECT max(position) FROM history), 0), coalesce((SELECT max(position) FROM logs), 0),
coalesce((SELECT -min(position) FROM logs), 0), coalesce((SELECT max(position) FROM service_log), 0),
coalesce((SELECT {memo_number} FROM records WHERE kind = 'memo' AND id = 'restored:position'), 0);

-- name: get_transitions
SELECT history.position, history.run_id, runs.job_id, runs.tenant, history.entries
FROM history CROSS JOIN runs ON runs.id = history.run_id
WHERE history.position > :after AND history.position <= :reach
AND (:job_id IS NULL OR runs.job_id = :job_id) AND (:tenant IS NULL OR runs.tenant = :tenant)
ORDER BY history.position LIMIT :limit;

-- name: get_transitions_of_run
SELECT history.position, history.run_id, runs.job_id, runs.tenant, history.entries
FROM history INDEXED BY history_of_run CROSS JOIN runs ON runs.id = history.run_id
WHERE history.run_id = :run_id AND history.position > :after
AND (:job_id IS NULL OR runs.job_id = :job_id) AND (:tenant IS NULL OR runs.tenant = :tenant)
ORDER BY history.position LIMIT :limit;

-- name: get_lines
SELECT logs.position, logs.run_id, runs.job_id, runs.tenant, logs.at, logs.attempt, logs.level, logs.text, logs.logger
FROM logs CROSS JOIN runs ON runs.id = logs.run_id
WHERE logs.position > :after AND logs.position <= :reach
AND (:job_id IS NULL OR runs.job_id = :job_id) AND (:tenant IS NULL OR runs.tenant = :tenant)
ORDER BY logs.position LIMIT :limit;

-- name: get_lines_of_run
SELECT logs.position, logs.run_id, runs.job_id, runs.tenant, logs.at, logs.attempt, logs.level, logs.text, logs.logger
FROM logs CROSS JOIN runs ON runs.id = logs.run_id
WHERE logs.position IN ({positions_of_lines})
AND (:job_id IS NULL OR runs.job_id = :job_id) AND (:tenant IS NULL OR runs.tenant = :tenant)
ORDER BY logs.position;

-- name: get_services
SELECT position, service, at, stream, text, change FROM service_log
WHERE position > :after AND position <= :reach ORDER BY position LIMIT :limit;

-- name: get_services_of_service
SELECT position, service, at, stream, text, change FROM service_log INDEXED BY service_log_of_service
WHERE service = :service AND position > :after ORDER BY position LIMIT :limit;

-- name: get_violations
SELECT position, service, at, stream, text, change FROM service_log
WHERE position > :after AND position <= :reach AND stream = 'violation'
AND CASE stream WHEN 'violation' THEN (:job_id IS NULL OR {violation_job_id} = :job_id)
  AND (:tenant IS NULL OR {violation_tenant} = :tenant) END
ORDER BY position LIMIT :limit;

-- name: get_violations_of_run
SELECT position, service, at, stream, text, change FROM service_log INDEXED BY violations_of_run
WHERE stream = 'violation' AND {violation_run_id} = :run_id AND position > :after
AND (:job_id IS NULL OR {violation_job_id} = :job_id)
AND (:tenant IS NULL OR {violation_tenant} = :tenant)
ORDER BY position LIMIT :limit;

-- name: get_last_of_service
SELECT position, service, at, stream, text, change FROM service_log INDEXED BY service_log_of_service
WHERE service = :service AND position > :after ORDER BY position DESC LIMIT :limit;

-- name: get_logged_services
WITH RECURSIVE found (service) AS (
  SELECT min(service) FROM service_log
  UNION ALL
  SELECT (SELECT min(service) FROM service_log WHERE service > found.service) FROM found WHERE service IS NOT NULL
)
SELECT service FROM found WHERE service IS NOT NULL;

-- name: is_beyond
SELECT count(*) > :most_lines OR sum(size) > :most_bytes FROM ({newest_of_service}) AS newest;

-- name: newest_of_service
SELECT position, size FROM service_log INDEXED BY service_log_of_service
WHERE service = :service ORDER BY position DESC LIMIT :most_lines + 1

-- name: find_cut
SELECT position FROM (
  SELECT position, row_number() OVER newest AS lines, sum(size) OVER newest AS bytes FROM ({newest_of_service}) AS rows
  WINDOW newest AS (ORDER BY position DESC ROWS UNBOUNDED PRECEDING)
) AS sums
WHERE lines > :most_lines OR bytes > :most_bytes ORDER BY position DESC LIMIT 1;

-- name: get_key
SELECT run_id, digest FROM idempotency_keys WHERE tenant = ? AND idempotency_key = ?;

-- name: get_digest
SELECT digest FROM idempotency_keys WHERE run_id = ?;

-- name: get_tenant_of_pruned
SELECT tenant FROM idempotency_keys WHERE run_id = ?1 AND NOT EXISTS (SELECT 1 FROM runs WHERE id = ?1);

-- name: get_key_range
SELECT coalesce((SELECT min(number) FROM idempotency_keys), 0), coalesce((SELECT max(number) FROM idempotency_keys), 0);

-- name: get_key_created
SELECT created_at FROM idempotency_keys WHERE number >= :number ORDER BY number LIMIT 1;

-- name: find_old_keys
SELECT number FROM idempotency_keys NOT INDEXED WHERE number <= :last AND created_at < :created_before
AND (idempotency_key IS NULL OR NOT {is_call})
AND NOT EXISTS (SELECT 1 FROM runs WHERE runs.id = idempotency_keys.run_id AND runs.ended_at IS NULL)
ORDER BY number LIMIT :limit;

-- name: find_old_calls
SELECT number FROM idempotency_keys WHERE {is_call} AND created_at < :created_before
AND NOT EXISTS (SELECT 1 FROM runs WHERE runs.id = idempotency_keys.run_id AND runs.ended_at IS NULL)
ORDER BY created_at LIMIT :limit;

-- name: get_first_time
SELECT scheduled_at FROM runs INDEXED BY runs_of_job
WHERE job_id = ? AND tenant = 'default' AND origin IN ('schedule', 'catch_up') ORDER BY number LIMIT 1;

-- name: get_latest_time
SELECT max(scheduled_at) FROM runs INDEXED BY runs_of_job WHERE job_id = ? AND scheduled_at > ?;

-- name: get_state
SELECT state FROM runs WHERE id = ?;

-- name: get_previous
SELECT others.id, others.state, others.ended_at IS NOT NULL
FROM runs CROSS JOIN runs AS others INDEXED BY runs_of_job ON others.job_id = runs.job_id AND others.number < runs.number
WHERE runs.id = ? AND others.tenant = runs.tenant
AND (others.started_at IS NOT NULL OR (others.ended_at IS NULL AND others.state <> 'prerun'))
ORDER BY others.number DESC LIMIT 1;

-- name: get_steps
SELECT {all_columns} FROM runs INDEXED BY runs_of_parent WHERE parent = ? AND ended_at IS NOT NULL ORDER BY number;

-- name: get_saga
SELECT id, facets FROM runs INDEXED BY sqlite_autoindex_runs_1
WHERE id > ?1 || '@' AND id < ?1 || 'A' AND {find}(substr(id, length(?1) + 2), '@') = 0;

-- name: get_job
SELECT definition FROM job_versions WHERE version = ?;

-- name: load_jobs
SELECT definition FROM job_versions
WHERE version IN (SELECT job_version FROM runs INDEXED BY runs_live WHERE ended_at IS NULL) ORDER BY job_id, version;

-- name: load_schedules
SELECT job_id, identity, anchor, cursor, next, paused, done, reached FROM schedules;

-- name: get_number_range
SELECT coalesce((SELECT min(number) FROM runs), 0), coalesce((SELECT max(number) FROM runs), 0);

-- name: get_created
SELECT created_at FROM runs WHERE number >= :number ORDER BY number LIMIT 1;

-- name: find_old_runs
SELECT number FROM runs NOT INDEXED
WHERE number <= :last AND ended_at < :ended_before AND {may_go} ORDER BY number LIMIT :limit;

-- name: find_oldest_runs
SELECT number FROM (
  SELECT number, {may_go} AS may_go FROM runs NOT INDEXED
  WHERE number >= :first AND ended_at IS NOT NULL AND number NOT IN {found}
  ORDER BY number LIMIT :surplus
) AS oldest
WHERE may_go LIMIT :limit;

-- name: count_runs
SELECT count(*) FROM runs INDEXED BY runs_of_job;

-- name: count_all_live
SELECT count(*) FROM runs INDEXED BY runs_live WHERE ended_at IS NULL;

-- A retry under way has yet to look at the rows below this number.
-- name: get_unreached
SELECT coalesce(max({retry_before}), 0) FROM records
WHERE kind = 'bulk' AND holds AND state = 'retry' AND ({retry_letters} IS NOT NULL) = :of_letters;

-- name: find_surplus_runs
WITH RECURSIVE found (job_id) AS (
  SELECT min(job_id) FROM runs
  UNION ALL
  SELECT (SELECT min(job_id) FROM runs WHERE job_id > found.job_id) FROM found WHERE job_id IS NOT NULL
)
SELECT runs.number FROM found CROSS JOIN runs INDEXED BY runs_of_job
ON runs.job_id = found.job_id AND runs.number <= ({newest_surplus_run})
WHERE runs.ended_at IS NOT NULL AND {may_go} LIMIT :limit;

-- name: newest_surplus_run
SELECT others.number FROM runs AS others INDEXED BY runs_of_job
WHERE others.job_id = found.job_id AND {find}(others.id, '@') = 0
AND others.number NOT IN (SELECT number FROM runs INDEXED BY runs_live WHERE ended_at IS NULL)
ORDER BY others.number DESC LIMIT 1 OFFSET :most

-- name: get_number_at
SELECT runs.number FROM history CROSS JOIN runs ON runs.id = history.run_id WHERE history.position = :position
UNION ALL
SELECT runs.number FROM logs CROSS JOIN runs ON runs.id = logs.run_id WHERE logs.position = :position;

-- A workflow with all its steps.
-- name: weigh_runs
SELECT number, CAST(sum(weight) AS BIGINT) FROM (
  SELECT runs.number, {weight} AS weight FROM runs WHERE number IN {numbers}
  UNION ALL
  SELECT roots.number, {weight} FROM runs AS roots CROSS JOIN runs INDEXED BY sqlite_autoindex_runs_1
  ON runs.id > roots.id || '@' AND runs.id < roots.id || 'A'
  WHERE roots.number IN {numbers}
) AS weights
GROUP BY number ORDER BY number;

-- name: weight
1 + (SELECT count(*) FROM history INDEXED BY history_of_run WHERE run_id = runs.id)
  + (SELECT count(*) FROM logs INDEXED BY logs_of_run WHERE run_id = runs.id)
  + (length(runs.payload) + coalesce(length(runs.result), 0)) / 4096
  + (SELECT count(*) + coalesce(sum(length(payload)), 0) / 4096 FROM further_payloads WHERE run_id = runs.id)
  + (SELECT count(*) FROM records INDEXED BY records_of_run WHERE run = runs.id)

-- name: may_go
runs.number >= :unreached AND {find}(runs.id, '@') = 0
AND (runs.created_at < :occurrences_before OR runs.origin IS NULL OR runs.origin NOT IN ('schedule', 'catch_up'))
AND NOT EXISTS (SELECT 1 FROM records INDEXED BY records_of_run WHERE records.run = runs.id AND holds)
AND NOT EXISTS (
  SELECT 1 FROM records INDEXED BY records_of_run
  WHERE records.run > runs.id || '@' AND records.run < runs.id || 'A' AND holds
)

-- name: find_roots
SELECT roots.number FROM runs JOIN runs AS roots ON roots.id = {root_id}
WHERE runs.number IN {numbers} AND {find}(runs.id, '@') > 0;

-- name: get_result
SELECT result, facets FROM runs WHERE id = ? AND facets IS NOT NULL;

-- name: get_held_lines
SELECT position, attempt, number, text, level, logger FROM logs INDEXED BY logs_of_run WHERE run_id = ? AND position < 0
ORDER BY position DESC;

-- name: get_inputs
SELECT runs.payload, checkpoints.value FROM runs LEFT JOIN checkpoints ON checkpoints.run_id = runs.id WHERE runs.id = ?;

-- name: get_further_payloads
SELECT payload FROM further_payloads WHERE run_id = ? ORDER BY number;

-- name: get_logs
SELECT position, at, attempt, level, text, logger FROM logs WHERE position IN ({positions_of_lines}) ORDER BY position;

-- name: positions_of_lines
SELECT position FROM logs INDEXED BY logs_of_run WHERE run_id = :run_id AND position > :after
ORDER BY position LIMIT :limit

-- name: get_audit_end
SELECT number, hash FROM audit ORDER BY number DESC LIMIT 1;

-- name: list_audit
SELECT {audit_columns} FROM audit {audit_wanted} ORDER BY number LIMIT :limit;

-- name: list_last_of_audit
SELECT {audit_columns} FROM audit {audit_wanted} ORDER BY number DESC LIMIT :limit;

-- name: audit_wanted
WHERE number > :after AND number <= :reach
AND (:kind IS NULL OR kind = :kind)
AND (:actor IS NULL OR actor = :actor)
AND (:tenant IS NULL OR tenant = :tenant)
AND (:subject IS NULL OR subject = :subject)
AND (:since IS NULL OR at >= :since)

-- name: get_record
SELECT id, value FROM records WHERE kind = ? AND id = ?;

-- name: load_records
SELECT id, value FROM records INDEXED BY records_of_kind WHERE kind = :kind ORDER BY number;

-- name: list_records
SELECT number, id, value FROM {place}
AND number < :before AND number > :floor AND {record_fits} ORDER BY number DESC LIMIT :limit;

-- name: count_records
SELECT state, count(*) FROM {all_records} AND {record_fits} GROUP BY state;

-- name: record_fits
(:tenant IS NULL OR tenant = :tenant)
AND (:job IS NULL OR job = :job)
AND (:run IS NULL OR run = :run)
AND (:state IS NULL OR state = :state)
AND (:since IS NULL OR at >= :since)
AND (:until IS NULL OR at < :until)
AND (:is_due IS NULL OR (due_at IS NOT NULL) = :is_due)

-- name: get_due_times
WITH RECURSIVE {first_in_order}, queues (queue) AS (
  SELECT min(queue) FROM {unordered}
  UNION ALL
  SELECT (SELECT min(queue) FROM {unordered} AND queue > queues.queue) FROM queues WHERE queue IS NOT NULL
)
SELECT queue, min(due_at) FROM (
  SELECT queue, (SELECT min(due_at) FROM {unordered} AND records.queue = queues.queue) AS due_at
  FROM queues WHERE queue IS NOT NULL
  UNION ALL
  SELECT queue, due_at FROM first_in_order CROSS JOIN records USING (number)
) AS times
GROUP BY queue;

-- name: get_due
WITH RECURSIVE {first_in_order}
SELECT id, value FROM (
  SELECT * FROM (SELECT number FROM {unordered} AND queue = :queue AND due_at <= :now ORDER BY due_at LIMIT :limit) AS earliest
  UNION ALL
  SELECT number FROM first_in_order
) AS first
CROSS JOIN records USING (number) WHERE queue = :queue AND due_at <= :now ORDER BY due_at, number LIMIT :limit;

-- name: unordered
records INDEXED BY records_due WHERE kind = :kind AND due_at IS NOT NULL AND order_key IS NULL

-- name: ordered
records INDEXED BY records_in_order WHERE kind = :kind AND due_at IS NOT NULL AND order_key IS NOT NULL

-- name: first_in_order
orders (order_key) AS (
  SELECT min(order_key) FROM {ordered}
  UNION ALL
  SELECT (SELECT min(order_key) FROM {ordered} AND order_key > orders.order_key) FROM orders WHERE order_key IS NOT NULL
), first_in_order (number) AS (
  SELECT (SELECT min(number) FROM {ordered} AND records.order_key = orders.order_key)
  FROM orders WHERE order_key IS NOT NULL
)

-- name: all_records
records INDEXED BY records_of_kind WHERE kind = :kind

-- name: records_of_run
records INDEXED BY records_of_run WHERE run = :run AND kind = :kind

-- name: records_by_id
records INDEXED BY sqlite_autoindex_records_1 WHERE kind = :kind AND id >= :id_prefix AND id < :id_prefix || {last_character}

-- name: load_reaches
SELECT id, (
  SELECT count(*) FROM runs INDEXED BY runs_live WHERE ended_at IS NULL AND runs.number
  <= {least}(last_run, coalesce((SELECT number - 1 FROM runs AS walked WHERE walked.id = records.run), last_run))
)
FROM records WHERE kind = 'bulk' AND holds;

-- Without those of idle sessions.
-- name: load_memos
SELECT id, value FROM records WHERE kind = 'memo' AND (id < 'session:' OR id >= 'session;')
UNION ALL SELECT id, value FROM (
  SELECT DISTINCT 'session:' || tenant || ':' || session AS name FROM runs INDEXED BY runs_live
  WHERE ended_at IS NULL AND session IS NOT NULL
) AS names CROSS JOIN records ON kind = 'memo' AND id = name;

-- name: has_session_memos
SELECT EXISTS (SELECT 1 FROM records WHERE kind = 'memo' AND id >= 'session:' AND id < 'session;');
