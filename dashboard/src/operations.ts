// Written by `python -m tools.dashboard_types`; do not edit it by hand.

import type { Operations, Permission } from './types'

/** How to ask for one; its path is relative to the server. */
export interface Row<K extends keyof Operations = keyof Operations> {
  name: K
  method: string
  path: string
  permission: Permission | null
  /** Whether only callers who see every tenant may ask. */
  everyTenant: boolean
}
export const overview: Row<"overview"> = {"name": "overview", "method": "GET", "path": "api/v1/overview", "permission": "read", "everyTenant": false}
export const tallies: Row<"tallies"> = {"name": "tallies", "method": "GET", "path": "api/v1/tallies", "permission": "read", "everyTenant": false}
export const failures: Row<"failures"> = {"name": "failures", "method": "GET", "path": "api/v1/failures", "permission": "read", "everyTenant": false}
export const submit: Row<"submit"> = {"name": "submit", "method": "POST", "path": "api/v1/runs", "permission": "submit", "everyTenant": false}
export const submit_many: Row<"submit_many"> = {"name": "submit_many", "method": "POST", "path": "api/v1/runs/batch", "permission": "submit", "everyTenant": false}
export const runs: Row<"runs"> = {"name": "runs", "method": "GET", "path": "api/v1/runs", "permission": "read", "everyTenant": false}
export const run: Row<"run"> = {"name": "run", "method": "GET", "path": "api/v1/runs/{run_id}", "permission": "read", "everyTenant": false}
export const steps: Row<"steps"> = {"name": "steps", "method": "GET", "path": "api/v1/runs/{run_id}/steps", "permission": "read", "everyTenant": false}
export const record: Row<"record"> = {"name": "record", "method": "GET", "path": "api/v1/runs/{run_id}/record", "permission": "read", "everyTenant": false}
export const explanation: Row<"explanation"> = {"name": "explanation", "method": "GET", "path": "api/v1/runs/{run_id}/explanation", "permission": "read", "everyTenant": false}
export const history: Row<"history"> = {"name": "history", "method": "GET", "path": "api/v1/runs/{run_id}/history", "permission": "read", "everyTenant": false}
export const logs: Row<"logs"> = {"name": "logs", "method": "GET", "path": "api/v1/runs/{run_id}/logs", "permission": "read", "everyTenant": false}
export const send_event: Row<"send_event"> = {"name": "send_event", "method": "POST", "path": "api/v1/runs/{run_id}/events", "permission": "submit", "everyTenant": false}
export const cancel_many: Row<"cancel_many"> = {"name": "cancel_many", "method": "POST", "path": "api/v1/runs/cancel", "permission": "cancel", "everyTenant": false}
export const hold_many: Row<"hold_many"> = {"name": "hold_many", "method": "POST", "path": "api/v1/runs/hold", "permission": "cancel", "everyTenant": false}
export const release_many: Row<"release_many"> = {"name": "release_many", "method": "POST", "path": "api/v1/runs/release", "permission": "cancel", "everyTenant": false}
export const retry_many: Row<"retry_many"> = {"name": "retry_many", "method": "POST", "path": "api/v1/runs/retry", "permission": "cancel", "everyTenant": false}
export const bulk: Row<"bulk"> = {"name": "bulk", "method": "GET", "path": "api/v1/bulk/{bulk_id}", "permission": "read", "everyTenant": false}
export const cancel: Row<"cancel"> = {"name": "cancel", "method": "POST", "path": "api/v1/runs/{run_id}/cancel", "permission": "cancel", "everyTenant": false}
export const hold: Row<"hold"> = {"name": "hold", "method": "POST", "path": "api/v1/runs/{run_id}/hold", "permission": "cancel", "everyTenant": false}
export const release: Row<"release"> = {"name": "release", "method": "POST", "path": "api/v1/runs/{run_id}/release", "permission": "cancel", "everyTenant": false}
export const retry: Row<"retry"> = {"name": "retry", "method": "POST", "path": "api/v1/runs/{run_id}/retry", "permission": "cancel", "everyTenant": false}
export const resume_run: Row<"resume_run"> = {"name": "resume_run", "method": "POST", "path": "api/v1/runs/{run_id}/resume", "permission": "cancel", "everyTenant": false}
export const abandon_run: Row<"abandon_run"> = {"name": "abandon_run", "method": "POST", "path": "api/v1/runs/{run_id}/abandon", "permission": "cancel", "everyTenant": false}
export const jobs: Row<"jobs"> = {"name": "jobs", "method": "GET", "path": "api/v1/jobs", "permission": "read", "everyTenant": false}
export const job: Row<"job"> = {"name": "job", "method": "GET", "path": "api/v1/jobs/{job_id}", "permission": "read", "everyTenant": false}
export const job_log: Row<"job_log"> = {"name": "job_log", "method": "GET", "path": "api/v1/jobs/{job_id}/log", "permission": "read", "everyTenant": false}
export const next_times: Row<"next_times"> = {"name": "next_times", "method": "GET", "path": "api/v1/jobs/{job_id}/next", "permission": "read", "everyTenant": false}
export const schedule_times: Row<"schedule_times"> = {"name": "schedule_times", "method": "GET", "path": "api/v1/next", "permission": "read", "everyTenant": false}
export const timetable: Row<"timetable"> = {"name": "timetable", "method": "GET", "path": "api/v1/timetable", "permission": "read", "everyTenant": false}
export const trigger: Row<"trigger"> = {"name": "trigger", "method": "POST", "path": "api/v1/jobs/{job_id}/trigger", "permission": "submit", "everyTenant": false}
export const pause: Row<"pause"> = {"name": "pause", "method": "POST", "path": "api/v1/jobs/{job_id}/pause", "permission": "operate", "everyTenant": true}
export const resume: Row<"resume"> = {"name": "resume", "method": "POST", "path": "api/v1/jobs/{job_id}/resume", "permission": "operate", "everyTenant": true}
export const backfill: Row<"backfill"> = {"name": "backfill", "method": "POST", "path": "api/v1/jobs/{job_id}/backfill", "permission": "operate", "everyTenant": true}
export const put_job: Row<"put_job"> = {"name": "put_job", "method": "PUT", "path": "api/v1/jobs/{job_id}", "permission": "operate", "everyTenant": true}
export const put_jobs: Row<"put_jobs"> = {"name": "put_jobs", "method": "POST", "path": "api/v1/jobs", "permission": "operate", "everyTenant": true}
export const delete_job: Row<"delete_job"> = {"name": "delete_job", "method": "DELETE", "path": "api/v1/jobs/{job_id}", "permission": "operate", "everyTenant": true}
export const send_workflow_event: Row<"send_workflow_event"> = {"name": "send_workflow_event", "method": "POST", "path": "api/v1/workflows/{job_id}/events", "permission": "submit", "everyTenant": false}
export const workflows: Row<"workflows"> = {"name": "workflows", "method": "GET", "path": "api/v1/workflows", "permission": "read", "everyTenant": false}
export const lanes: Row<"lanes"> = {"name": "lanes", "method": "GET", "path": "api/v1/lanes", "permission": "read", "everyTenant": true}
export const create_lane: Row<"create_lane"> = {"name": "create_lane", "method": "POST", "path": "api/v1/lanes", "permission": "operate", "everyTenant": true}
export const set_lane: Row<"set_lane"> = {"name": "set_lane", "method": "PATCH", "path": "api/v1/lanes/{lane}", "permission": "operate", "everyTenant": true}
export const pause_lane: Row<"pause_lane"> = {"name": "pause_lane", "method": "POST", "path": "api/v1/lanes/{lane}/pause", "permission": "operate", "everyTenant": true}
export const resume_lane: Row<"resume_lane"> = {"name": "resume_lane", "method": "POST", "path": "api/v1/lanes/{lane}/resume", "permission": "operate", "everyTenant": true}
export const drain_lane: Row<"drain_lane"> = {"name": "drain_lane", "method": "POST", "path": "api/v1/lanes/{lane}/drain", "permission": "operate", "everyTenant": true}
export const tenants: Row<"tenants"> = {"name": "tenants", "method": "GET", "path": "api/v1/tenants", "permission": "read", "everyTenant": false}
export const sessions: Row<"sessions"> = {"name": "sessions", "method": "GET", "path": "api/v1/sessions", "permission": "read", "everyTenant": false}
export const session: Row<"session"> = {"name": "session", "method": "GET", "path": "api/v1/sessions/{session}", "permission": "read", "everyTenant": false}
export const stop_session: Row<"stop_session"> = {"name": "stop_session", "method": "POST", "path": "api/v1/sessions/{session}/stop", "permission": "cancel", "everyTenant": false}
export const stopall_session: Row<"stopall_session"> = {"name": "stopall_session", "method": "POST", "path": "api/v1/sessions/{session}/stopall", "permission": "cancel", "everyTenant": false}
export const reset_session: Row<"reset_session"> = {"name": "reset_session", "method": "POST", "path": "api/v1/sessions/{session}/reset", "permission": "cancel", "everyTenant": false}
export const pause_session: Row<"pause_session"> = {"name": "pause_session", "method": "POST", "path": "api/v1/sessions/{session}/pause", "permission": "cancel", "everyTenant": false}
export const resume_session: Row<"resume_session"> = {"name": "resume_session", "method": "POST", "path": "api/v1/sessions/{session}/resume", "permission": "cancel", "everyTenant": false}
export const workers: Row<"workers"> = {"name": "workers", "method": "GET", "path": "api/v1/workers", "permission": "read", "everyTenant": true}
export const pools: Row<"pools"> = {"name": "pools", "method": "GET", "path": "api/v1/pools", "permission": "read", "everyTenant": true}
export const worker: Row<"worker"> = {"name": "worker", "method": "GET", "path": "api/v1/workers/{worker_id}", "permission": "read", "everyTenant": true}
export const drain_worker: Row<"drain_worker"> = {"name": "drain_worker", "method": "POST", "path": "api/v1/workers/{worker_id}/drain", "permission": "operate", "everyTenant": true}
export const resume_worker: Row<"resume_worker"> = {"name": "resume_worker", "method": "POST", "path": "api/v1/workers/{worker_id}/resume", "permission": "operate", "everyTenant": true}
export const remove_worker: Row<"remove_worker"> = {"name": "remove_worker", "method": "POST", "path": "api/v1/workers/{worker_id}/remove", "permission": "operate", "everyTenant": true}
export const redeliver: Row<"redeliver"> = {"name": "redeliver", "method": "POST", "path": "api/v1/deliveries/{delivery_id}/redeliver", "permission": "operate", "everyTenant": false}
export const deliveries: Row<"deliveries"> = {"name": "deliveries", "method": "GET", "path": "api/v1/deliveries", "permission": "read", "everyTenant": false}
export const delivery: Row<"delivery"> = {"name": "delivery", "method": "GET", "path": "api/v1/deliveries/{delivery_id}", "permission": "read", "everyTenant": false}
export const letters: Row<"letters"> = {"name": "letters", "method": "GET", "path": "api/v1/dead-letters", "permission": "read", "everyTenant": false}
export const letter: Row<"letter"> = {"name": "letter", "method": "GET", "path": "api/v1/dead-letters/{letter_id}", "permission": "read", "everyTenant": false}
export const replay: Row<"replay"> = {"name": "replay", "method": "POST", "path": "api/v1/dead-letters/{letter_id}/replay", "permission": "submit", "everyTenant": false}
export const replay_many: Row<"replay_many"> = {"name": "replay_many", "method": "POST", "path": "api/v1/dead-letters/replay", "permission": "cancel", "everyTenant": false}
export const drop_letter: Row<"drop_letter"> = {"name": "drop_letter", "method": "DELETE", "path": "api/v1/dead-letters/{letter_id}", "permission": "operate", "everyTenant": false}
export const drop_letters: Row<"drop_letters"> = {"name": "drop_letters", "method": "POST", "path": "api/v1/dead-letters/drop", "permission": "operate", "everyTenant": false}
export const approvals: Row<"approvals"> = {"name": "approvals", "method": "GET", "path": "api/v1/approvals", "permission": "read", "everyTenant": false}
export const approval: Row<"approval"> = {"name": "approval", "method": "GET", "path": "api/v1/approvals/{run_id}", "permission": "read", "everyTenant": false}
export const approve: Row<"approve"> = {"name": "approve", "method": "POST", "path": "api/v1/runs/{run_id}/approve", "permission": "approve", "everyTenant": false}
export const reject: Row<"reject"> = {"name": "reject", "method": "POST", "path": "api/v1/runs/{run_id}/reject", "permission": "approve", "everyTenant": false}
export const release_output: Row<"release_output"> = {"name": "release_output", "method": "POST", "path": "api/v1/runs/{run_id}/release-output", "permission": "approve", "everyTenant": false}
export const policy: Row<"policy"> = {"name": "policy", "method": "GET", "path": "api/v1/policy", "permission": "read", "everyTenant": true}
export const audit: Row<"audit"> = {"name": "audit", "method": "GET", "path": "api/v1/audit", "permission": "read the audit", "everyTenant": false}
export const tree: Row<"tree"> = {"name": "tree", "method": "GET", "path": "api/v1/tree", "permission": "read", "everyTenant": true}
export const start_service: Row<"start_service"> = {"name": "start_service", "method": "POST", "path": "api/v1/services/{name}/start", "permission": "operate", "everyTenant": true}
export const stop_service: Row<"stop_service"> = {"name": "stop_service", "method": "POST", "path": "api/v1/services/{name}/stop", "permission": "operate", "everyTenant": true}
export const restart_service: Row<"restart_service"> = {"name": "restart_service", "method": "POST", "path": "api/v1/services/{name}/restart", "permission": "operate", "everyTenant": true}
export const suspend_service: Row<"suspend_service"> = {"name": "suspend_service", "method": "POST", "path": "api/v1/services/{name}/suspend", "permission": "operate", "everyTenant": true}
export const resume_service: Row<"resume_service"> = {"name": "resume_service", "method": "POST", "path": "api/v1/services/{name}/resume", "permission": "operate", "everyTenant": true}
export const reload: Row<"reload"> = {"name": "reload", "method": "POST", "path": "api/v1/reload", "permission": "operate", "everyTenant": true}
export const services: Row<"services"> = {"name": "services", "method": "GET", "path": "api/v1/services", "permission": "read", "everyTenant": true}
export const service: Row<"service"> = {"name": "service", "method": "GET", "path": "api/v1/services/{name}", "permission": "read", "everyTenant": true}
export const service_logs: Row<"service_logs"> = {"name": "service_logs", "method": "GET", "path": "api/v1/services/{name}/logs", "permission": "read", "everyTenant": true}
export const cluster: Row<"cluster"> = {"name": "cluster", "method": "GET", "path": "api/v1/cluster", "permission": "read", "everyTenant": true}
export const hand_over: Row<"hand_over"> = {"name": "hand_over", "method": "POST", "path": "api/v1/cluster/hand-over", "permission": "operate", "everyTenant": true}
export const events: Row<"events"> = {"name": "events", "method": "GET", "path": "api/v1/events", "permission": "read", "everyTenant": false}
export const me: Row<"me"> = {"name": "me", "method": "GET", "path": "api/v1/me", "permission": "read", "everyTenant": false}
export const sign_in: Row<"sign_in"> = {"name": "sign_in", "method": "POST", "path": "api/v1/sign-in", "permission": null, "everyTenant": false}
export const healthz: Row<"healthz"> = {"name": "healthz", "method": "GET", "path": "healthz", "permission": null, "everyTenant": false}
export const readyz: Row<"readyz"> = {"name": "readyz", "method": "GET", "path": "readyz", "permission": null, "everyTenant": false}
export const metrics: Row<"metrics"> = {"name": "metrics", "method": "GET", "path": "metrics", "permission": "read", "everyTenant": true}
export const openapi: Row<"openapi"> = {"name": "openapi", "method": "GET", "path": "openapi.json", "permission": null, "everyTenant": false}
