// Written by `python -m tools.dashboard_types`; do not edit it by hand.

/** Any value of JSON. */
export type Json = null | boolean | number | string | Json[] | { [name: string]: Json };

/** The facets of a run by name, None where it has none. Stored as one value in one column. */
export interface Facets {
  hold?: Hold | null;
  labels?: Record<string, string> | null;
  unique?: Unique | null;
  priority?: Priority | null;
  session?: SessionFacet | null;
  limit_value?: string | null;
  retry_of?: OtherRun | null;
  retried_as?: OtherRun | null;
  failure?: Failure | null;
  collected?: Collected | null;
  collapsed_into?: OtherRun | null;
  constraints?: Guarded | null;
  caused_by?: CausedBy | null;
  behind?: string[] | null;
  above?: string[] | null;
  cascade?: boolean | null;
  step?: StepFacet | null;
  workflow?: WorkflowFacet | null;
  policy?: Judged | null;
  output?: OutputRecord | null;
  notes?: Note[] | null;
  progress?: ProgressInfo | null;
  unheard?: boolean | null;
}

/** A run that waits until a person releases it. */
export interface Hold {
  by: string;
  at: string;
}

/** An idempotency key that is free again once its run has ended. */
export interface Unique {
  while_live?: boolean;
}

export type Priority = "batch" | "critical" | "interactive";

/** Its place in its session. */
export interface SessionFacet {
  options?: Record<string, Json> | null;
  stamp?: string | null;
  place?: number;
  detached?: boolean;
  stepped_back?: boolean;
}

export interface OtherRun {
  run_id: string;
}

/** A facet: the latest attempt of a run failed with this exception. */
export interface Failure {
  /** Qualified names of the exception's class and its bases. */
  types: string[];
  /** Text of the exception, without secrets. */
  message?: string;
  /** Delay in seconds that `RetryAfter` asked for. */
  retry_after?: number | null;
}

/** The payloads of other runs that this run got, after its own. */
export interface Collected {
  payloads: number;
  bytes: number;
}

/** The constraints of a run: what was checked, violated and done about it. */
export interface Guarded {
  cleared?: boolean;
  checked?: number;
  violated?: number;
  actions?: number;
  failed?: number;
  violations?: Violation[];
  answers?: Record<string, string>;
  asked?: Record<string, string>;
  decision?: Decision | null;
  step?: number;
  since?: string | null;
  late?: boolean;
}

/** A constraint that a run violated. */
export interface Violation {
  constraint: string;
  message: string;
  at: string;
}

/** The decision on a run that violates a constraint. */
export interface Decision {
  /** `skip`, `retry_later`, `kill_old` or `wait`. */
  action: ActionKind;
  /** For `retry_later`: time until constraints are checked again. */
  delay?: number;
  /** For `wait` and `retry_later`: longest time from the first violation. For `call`: longest time of its run. */
  limit?: number | null;
  /** If the action fails or reaches its limit: `fail` the run, `skip` it, or `allow` it. */
  on_error?: OnHookError;
}

export type ActionKind = "call" | "kill_old" | "retry_later" | "skip" | "trigger_job" | "wait" | "webhook";

export type OnHookError = "allow" | "fail" | "skip";

/** The run whose action created this one. */
export interface CausedBy {
  run_id: string;
  depth: number;
  check?: string;
}

/** A step of a workflow. */
export interface StepFacet {
  number: number;
  items?: number | null;
  undo?: Undo | null;
  completed?: number | null;
  done?: number | null;
  of_each?: GroupJob | null;
}

/** The compensation of a step: the job that undoes it once it has succeeded. */
export interface Undo {
  job: string;
  arguments?: Record<string, Json> | null;
  labels?: Record<string, string> | null;
  timeout?: number | null;
  capabilities?: string[];
}

/** The job that the items of a group run. */
export interface GroupJob {
  job: string;
  max_parallel: number;
  undo?: Undo | null;
}

export interface WorkflowFacet {
  closing?: Closing | null;
  begins_with?: string | null;
  seed?: string;
  round?: number;
  began_at?: string | null;
  seen?: number | null;
  halt?: Halted | null;
  published?: Record<string, Json> | null;
  changes?: string[];
  waits?: Record<string, string>;
  places?: Record<string, Json[]>;
  read_before?: Record<string, number>;
  has_events?: boolean;
}

/** The decided end of a workflow whose steps still stop. */
export interface Closing {
  state: State;
  reason: string;
  actor: string;
  keeps?: string[];
  compensate?: boolean;
  at?: string;
}

export type State = "prerun" | "pending" | "approval_required" | "condition_pending" | "condition_running" | "action_pending" | "action_running" | "scheduled" | "under_way" | "dispatched" | "starting" | "running" | "terminating" | "retrying" | "succeeded" | "failed" | "timeout" | "cancelled" | "denied" | "skipped" | "orphaned" | "output_quarantined";

/** A workflow whose function does not go on: it does not fit the record, or its turns crash or last too long. */
export interface Halted {
  code: string;
  text: string;
  at: string;
  step?: string;
}

/** The latest verdict of the policy on a run, unless it is a plain `allow`. */
export interface Judged {
  decision: Ruling;
  rule?: string;
  reason?: string;
  policy?: string;
  limits?: RunLimits | null;
  approval?: Approval | null;
  waits?: boolean;
  tries?: number;
}

/** The decision of a policy on a run. */
export type Ruling = "allow" | "allow_with_constraints" | "deny" | "require_approval" | "throttle";

/** Limits that a verdict puts on a run, in addition to those of its job. */
export interface RunLimits {
  /** Longest run time. */
  max_runtime?: number | null;
  /** Most retries. */
  max_retries?: number | null;
  /** Largest result, such as `1MB`; a larger one fails the run. */
  max_output?: number | null;
  /** Most runs under this rule that execute at once. */
  max_concurrent?: number | null;
  /** The only environment variables that a program gets; globs such as `AWS_*`. */
  environment?: string[] | null;
  /** Sandbox that the worker must use; the job's code obeys it. */
  sandbox?: string | null;
  /** The only tools that the job's code may use. */
  tools?: string[] | null;
}

/** The question to a person whether a run may start, and the answer. */
export interface Approval {
  request: string;
  asked_at: string;
  expires_at: string;
  approved?: boolean | null;
  by?: string;
  at?: string | null;
  reason?: string;
}

/** A facet: what the output policy decided about the result of a run. */
export interface OutputRecord {
  phase: number;
  decision: OutputAction | null;
  at: string;
  rule?: string;
  reason?: string;
  findings?: Finding[];
  found?: number;
  took?: number;
  released_by?: string;
  released_at?: string | null;
  release_reason?: string;
  status?: OutputStatus | null;
  lines?: number;
}

/** The decision on a result, the mildest first. */
export type OutputAction = "allow" | "deny" | "quarantine" | "redact";

/** A place in a result. It never holds the text that was found, because people see it. */
export interface Finding {
  /** Scanner that found it. */
  scanner: string;
  /** Kind, such as `card` or `github_token`. */
  kind: string;
  /** Place such as `$.items[2].name`; empty for plain text, or for the whole result. */
  path: string;
  /** First character, in the value at that place. */
  start: number;
  /** Character after the last. */
  end: number;
  /** Remark. */
  note: string;
}

/** What became of the result of a run that was to be checked. */
export type OutputStatus = "clean" | "pending" | "quarantined" | "redacted" | "skipped";

/** A remark on a run that is not a transition, such as a failed try to place it. */
export interface Note {
  /** Time. */
  at: string;
  /** Note. */
  text: string;
}

export interface ProgressInfo {
  /** Progress from 0 to 100. */
  percent: number;
  /** Current activity of the attempt. */
  text: string;
}

/** An error (RFC 9457). */
export interface ProblemDetails {
  /** `urn:interlock:problem:` and the code. */
  type: string;
  /** Name of the status. */
  title: string;
  /** Status of the answer. */
  status: number;
  /** Fault on one line, with the field and the value. */
  detail: string;
  /** Stable code; see [errors](#errors). */
  code: string;
  /** Every fault of a `bad_config`, each with its file and line if it has one. */
  faults?: string[];
}

export interface ActedOn {
  /** Id of the run; after a retry, of the new run. */
  id: string;
  /** State of the run now. A run that was asked to stop keeps its own until it ends. */
  state: State;
}

export interface ActedOnSession {
  /** Whether there was anything to act on: runs to stop, or a pause to begin or to end. */
  acted: boolean;
  /** Session after the action. */
  session: SessionInfo;
}

/** A session, with the options that another run of its latest job would get. */
export interface SessionInfo {
  /** Key. */
  key: string;
  /** Tenant. */
  tenant: string;
  /** Runs that have had their turn and have not ended. */
  active: number;
  /** Runs that wait for their turn. */
  waiting: number;
  /** Seconds of the longest wait so far; null if no run waits. */
  oldest_wait: number | null;
  /** `queue`, `followup` or `interrupt`. */
  mode: Mode;
  /** Runs that may be active at once. */
  max_concurrent: number;
  /** Seconds without a further arrival before a run starts. */
  debounce: number;
  /** Most runs that wait. */
  cap: number;
  /** Run to drop at `cap`: `old` cancels the oldest waiting run, `new` refuses the new one. */
  drop: Drop;
  /** Maximum start rate, such as `10/s`; null for no limit. */
  rate: string | null;
  /** Starts allowed at once after an idle period. */
  burst: number;
  /** Whether waiting runs stay until it is resumed. */
  paused: boolean;
  /** Number of resets so far. */
  generation: number;
  /** Time of the last `stopall`, until a later message comes; earlier messages are stale. */
  cutoff: string | null;
  /** Usage of its window; null if no window is known. */
  usage: SessionUsage | null;
}

export type Mode = "followup" | "interrupt" | "queue";

export type Drop = "new" | "old";

export interface SessionUsage {
  /** Part of the window in use. */
  used: number;
  /** Size of the window. */
  window: number;
}

/** A run for which an approval was asked, and what an approver needs to know. */
export interface ApprovalDetail {
  /** Run. */
  run_id: string;
  /** Job of the run. */
  job_id: string;
  /** Tenant of the run. */
  tenant: string;
  /** Rule that decided; empty for the default, a list or a filter, and for a step of a workflow that asks. */
  rule: string;
  /** Reason that the rule gives. */
  reason: string;
  /** Who submitted the run, and so cannot approve it. */
  created_by: string;
  /** Everybody on whose behalf it runs, the latest last; none of them can approve it. */
  submitters: string[];
  /** Time at which the approval was asked for. */
  asked_at: string;
  /** Time at which the run is denied if nobody answers. */
  expires_at: string;
  /** Labels of the run. */
  labels: Record<string, string>;
  /** Names the request and the policy as you see them; send it back to approve exactly these. */
  seen: string;
  /** State of the run. */
  state: State;
  /** Arguments; secrets are shown as `•••`. */
  payload: Json;
  /** Topic of the job. */
  topic: string;
  /** Abilities that the run uses. */
  capabilities: string[];
  /** Risks of the run. */
  risk_tags: string[];
  /** Things that the run needs. */
  requires: string[];
  /** Digest of the policy; empty for a step of a workflow that asks. */
  policy: string;
  /** Hash of the request. */
  request: string;
  /** Answer of the approver; null until there is one. */
  answer: AnswerInfo | null;
  /** Other runs of the same submitter in the last 24 hours, by job and state; most first. */
  recent: RunCount[];
  /** Whether `recent` counts all of them; it looks at the newest 1,000 of the submitter's runs at most. */
  recent_complete: boolean;
}

/** The answer of an approver. */
export interface AnswerInfo {
  /** Whether the run may start. */
  approved: boolean;
  /** Who answered. */
  by: string;
  /** Time of the answer. */
  at: string;
  /** Reason that the approver gave. */
  reason: string;
}

export interface RunCount {
  /** Job. */
  job_id: string;
  /** State. */
  state: State;
  /** Runs of the job in that state. */
  count: number;
}

/** One page of approvals. */
export interface ApprovalPage {
  /** Runs that wait for an approval, newest first. */
  approvals: ApprovalInfo[];
  /** Cursor of the next page; null on the last. */
  next: string | null;
}

/** A run for which an approval was asked. */
export interface ApprovalInfo {
  /** Run. */
  run_id: string;
  /** Job of the run. */
  job_id: string;
  /** Tenant of the run. */
  tenant: string;
  /** Rule that decided; empty for the default, a list or a filter, and for a step of a workflow that asks. */
  rule: string;
  /** Reason that the rule gives. */
  reason: string;
  /** Who submitted the run, and so cannot approve it. */
  created_by: string;
  /** Everybody on whose behalf it runs, the latest last; none of them can approve it. */
  submitters: string[];
  /** Time at which the approval was asked for. */
  asked_at: string;
  /** Time at which the run is denied if nobody answers. */
  expires_at: string;
  /** Labels of the run. */
  labels: Record<string, string>;
  /** Names the request and the policy as you see them; send it back to approve exactly these. */
  seen: string;
}

/** One page of the audit. */
export interface AuditPage {
  /** Entries, oldest first. */
  entries: AuditEntry[];
  /** Cursor of the next page; null on the last. */
  next: string | null;
  /** End of the chain; null for callers who do not see every tenant. */
  head: AuditHead | null;
}

/** An entry of the audit. */
export interface AuditEntry {
  /** Number: 1, 2, 3 and so on, without gaps. */
  number: number;
  /** Time, in whole milliseconds. */
  at: string;
  /** What happened. */
  kind: AuditKind;
  /** Who did it: the name of a token, `local`, `scheduler`, or the address of a client. */
  actor: string;
  /** Tenant; empty for what belongs to none. */
  tenant: string;
  /** What it was done to: a run, a job, a path. */
  subject: string;
  /** Further values, such as rule and reason. */
  detail: Record<string, Json>;
  /** How many times it happened; above 1 in the sum of repeated refusals. */
  count: number;
  /** Hash of the entry before; 64 zeros in the first. */
  previous: string;
  /** SHA-256 of the other fields as JSON with sorted keys. */
  hash: string;
}

export type AuditKind = "abandoned" | "approval_expired" | "approved" | "bypassed" | "job_changed" | "policy_changed" | "quarantined" | "redacted" | "rejected" | "released" | "restored" | "scan_skipped" | "self_approval" | "token_refused" | "tokens_changed" | "unreadable" | "verdict" | "went_back" | "worker_changed";

/** The end of the chain. */
export interface AuditHead {
  /** Number of the last entry; 0 if there is none. */
  number: number;
  /** Hash of the last entry; 64 zeros if there is none. */
  hash: string;
}

export interface BackfillBody {
  /** First time wanted, in RFC 3339 or seconds since 1970. */
  from: string | number;
  /** End of the range, itself excluded, in the same form. */
  to: string | number;
  /** Most of these runs that may be live at once. */
  max_parallel?: number;
  /** Arguments of every run; by default the job's own. */
  payload?: Record<string, Json> | null;
  /** Tenant of the run; by default the token's own, or `default` without tokens. */
  tenant?: string | null;
  /** `true`: create nothing; `created` has the ids of the runs that would be made. */
  dry_run?: boolean;
}

export interface Backfilled {
  /** Ids of the new runs. */
  created: string[];
  /** Ids of runs that already existed; they are left as they are. */
  existing: string[];
}

export interface BatchBody {
  /** Runs, each as in a single submit. */
  runs: NewRunBody[];
}

/** A run to create. */
export interface NewRunBody {
  /** Job to run. */
  job: string;
  /** Arguments; by default the job's own. */
  payload?: Record<string, Json> | null;
  /** Tenant of the run; by default the token's own, or `default` without tokens. */
  tenant?: string | null;
  /** Lane; by default the job's own. */
  lane?: string | null;
  /** Key shared by runs that wait for each other: up to 512 bytes of UTF-8. */
  session?: string | null;
  /** Idempotency key: a repeated submit finds the same run. */
  idempotency_key?: string | null;
  /** Time from the submit, or from when the run is due, until it must have ended. */
  deadline?: string | number | null;
  /** Time at which the run is due; not with `delay`. In RFC 3339, or seconds since 1970. */
  at?: string | number | null;
  /** Makes this the job's only run for this instant. Its id is `<job>:<seconds>`, with `:<tenant>` for a tenant other than `default`. In RFC 3339, or seconds since 1970. */
  occurrence?: string | number | null;
  /** Time until the run is due. */
  delay?: string | number | null;
  /** Labels of the run: up to 16 names, each with a text of up to 256 characters. */
  labels?: Record<string, string> | null;
  /** Place in the lane; by default the job's own. */
  priority?: Priority | null;
  /** Options of the session that differ from those of its key or its job: mode, max_concurrent, debounce, cap, drop, rate, burst. */
  session_options?: SessionOptionsBody | null;
  /** Time at which the message of the session was sent; by default now. In RFC 3339, or seconds since 1970. */
  stamp?: string | number | null;
  /** `while_live` frees the key when its run ends; without it, the key is kept for `keep_keys`. */
  unique?: "while_live" | null;
}

export interface BulkBody {
  /** Reason, kept with the runs. */
  reason?: string;
  /** `true`: change nothing, and say in `matching` on how many runs it would act. */
  dry_run?: boolean;
  /** Only runs of this job. */
  job?: string | null;
  /** Only runs of this tenant. */
  tenant?: string | null;
  /** Only runs of this session. */
  session?: string | null;
  /** Only runs in this lane. */
  lane?: string | null;
  /** Only runs created since then, in RFC 3339 or seconds since 1970. */
  since?: string | number | null;
  /** Only runs created before this time, in the same form. */
  until?: string | number | null;
  /** Only runs that this run made. */
  parent?: string | null;
  /** Only runs whose root is this run: it made them, directly or not. */
  root?: string | null;
  /** Only runs with this text in id, job, session, reason, error or a label (`name=value`), whatever the case. */
  text?: string | null;
  /** Only runs in one of these states: terminal for a retry, not terminal for others. */
  state?: State[];
  /** `true`: every run that the action applies to; needed without other fields. */
  all?: boolean;
}

/** A bulk request: its filter and its progress. */
export interface BulkInfo {
  /** Id of the request. */
  id: string;
  /** Action on each run. */
  action: RunAction;
  /** Only runs in one of these states; empty for any. */
  state: State[];
  /** Only runs of this job. */
  job: string | null;
  /** Only runs of this tenant. */
  tenant: string | null;
  /** Only runs of this session. */
  session: string | null;
  /** Only runs in this lane. */
  lane: string | null;
  /** Only runs created at this time or later. */
  since: string | null;
  /** Only runs created before this time. */
  until: string | null;
  /** Only runs that this run made. */
  parent: string | null;
  /** Only runs whose root is this run: it made them, directly or not. */
  root: string | null;
  /** Only runs with this text in id, job, session, reason, error or a label. */
  text: string | null;
  /** Only runs with such a dead letter. */
  letters: LetterFilter | null;
  /** Reason. */
  reason: string;
  /** Who asked for it. */
  actor: string;
  /** Time of the request; runs created later are not touched. */
  created_at: string;
  /** Time at which every run had been looked at; null until then. */
  ended_at: string | null;
  /** Runs on which the action is complete. */
  done: number;
  /** Running runs asked to stop, not counted in `done`; each ends once it has stopped. */
  asked: number;
  /** Runs not looked at yet; null for a retry, which does not count them. */
  left: number | null;
  /** Of a dry run: runs that it would act on now; 10,000 means 10,000 or more. */
  matching: number | null;
}

export type RunAction = "cancel" | "hold" | "release" | "retry";

/** The wanted letters: those that match every given field. */
export interface LetterFilter {
  /** Only letters with this reason code. */
  code: LetterCode | null;
  /** Only letters of this job. */
  job_id: string | null;
  /** Only letters of this tenant. */
  tenant: string | null;
  /** Only letters since then. */
  since: string | null;
  /** Only letters before this time. */
  until: string | null;
  /** Only letters that were replayed, or only others. */
  replayed: boolean | null;
}

/** The reason of a dead letter. */
export type LetterCode = "dispatch_failed" | "failed" | "no_pool_mapping" | "no_workers" | "orphaned" | "output_quarantined" | "poison" | "pool_overloaded" | "safety_denied" | "saga_unmarshal_failed" | "timeout";

export interface CancelBody {
  /** Reason, kept with the run. */
  reason?: string;
  /** `true`: also cancel the runs that it made, directly or not. None of them makes further runs. */
  cascade?: boolean;
  /** `true`: a workflow undoes its steps before it ends. */
  compensate?: boolean;
}

/** A child as it is now. */
export interface ChildInfo {
  /** Names from the top of the tree down to the child, joined by slashes; empty for the top. */
  path: string;
  /** Name. */
  name: string;
  /** `function`, `process`, `container` or `supervisor`. */
  kind: string;
  /** Status. */
  status: Status;
  /** Id of the process, if there is one. */
  pid: number | null;
  /** Time of the latest start. */
  since: string | null;
  /** Restarts since the supervisor started. */
  restarts: number;
  /** End of the backoff before the next restart. */
  next_try_at: string | null;
  /** Latest end. */
  last_exit: Exit | null;
  /** Whether the supervisor gave up after too many restarts. */
  exhausted: boolean;
  /** Reason why the child is not up. */
  reason: string;
  /** Traceback of the app of a worker that cannot start. */
  traceback: string;
  /** Of a supervisor: `one_for_one`, `one_for_all` or `rest_for_one`. */
  strategy: string | null;
  /** Of a supervisor: its children, in the order in which they start. */
  children: ChildInfo[];
}

export type Status = "created" | "failed" | "finished" | "killed" | "pending" | "running" | "starting" | "stopped" | "stopping" | "suspended";

/** The end of one life of a child. */
export interface Exit {
  /** Time. */
  at: string;
  /** Exit code; 0 for a function that returned. */
  code: number | null;
  /** Signal that ended the process. */
  signal: number | null;
  /** What a function raised, or why the child could not be started or had to be ended. */
  error: string;
}

/** Who leads, and the nodes that the leader hears of. */
export interface ClusterInfo {
  /** Node that leads. */
  leader: string;
  /** Time since when it leads. */
  since: string;
  /** Number of its lease; each take-over has a higher one. */
  epoch: number;
  /** Seconds until its lease ends, unless it renews it. */
  lease: number;
  /** Highest stored position. */
  position: number;
  /** Seconds since the store has last written. */
  lag: number;
  /** Its nodes, the leader first, then by name. */
  nodes: NodeInfo[];
}

/** A node that the leader hears of. */
export interface NodeInfo {
  /** Name. */
  name: string;
  /** Whether its scheduler leads. */
  leads: boolean;
  /** What it runs: `scheduler`, `gateway`, `worker`. */
  roles: string[];
  /** Version of Interlock. */
  version: string;
  /** Time of its start. */
  since: string;
  /** Seconds since the leader has heard of it. */
  silent: number;
  /** Seconds by which its clock is ahead of the database's. */
  clock: number;
  /** What is declared there in another way than at the leader. */
  differs: string[];
}

export interface Defined {
  /** Ids of the jobs, in the order of the request. */
  ids: string[];
}

/** A webhook delivery: target, state and latest answer. */
export interface DeliveryInfo {
  /** Id, which the receiver finds in the header `webhook-id`. */
  id: string;
  /** Run that caused it. */
  run_id: string;
  /** Job of the run. */
  job_id: string;
  /** Tenant of the run. */
  tenant: string;
  /** Event, such as `run.failed`. */
  event: string;
  /** URL without its query, or the variable with the URL. */
  target: string;
  /** `pending`, `delivered` or `failed`. */
  state: DeliveryState;
  /** Time of the event. */
  created_at: string;
  /** Tries so far. */
  tries: number;
  /** Time of the next try; null after the last. */
  next_at: string | null;
  /** Time of the last try; null while there are more. */
  ended_at: string | null;
  /** Status of the latest answer. */
  status: number | null;
  /** Latest answer, at most its first 4 KiB. */
  answer: string;
  /** Why the latest try failed; empty if it did not. */
  error: string;
}

export type DeliveryState = "delivered" | "failed" | "pending";

/** One page of deliveries. */
export interface DeliveryPage {
  /** Deliveries, newest first. */
  deliveries: DeliveryInfo[];
  /** Cursor of the next page; null on the last. */
  next: string | null;
}

export interface Dropped {
  /** Number of letters dropped. */
  dropped: number;
  /** `true`: some may be left; repeat the request. */
  more: boolean;
}

export interface EventBody {
  /** Name of the event: letters, digits and `_`. */
  name: string;
  /** Its value: JSON without secrets, up to 1 MiB. */
  value?: Json;
  /** Makes the event safe to repeat, as the header `Idempotency-Key` does. */
  idempotency_key?: string | null;
}

/** Why a run is where it is. */
export interface Explanation {
  /** Run. */
  run_id: string;
  /** State. */
  state: State;
  /** All of it in words. */
  sentence: string;
  /** What it waits for or does; all of it must change before it starts. */
  reasons: Reason[];
  /** For a run that waits in its lane: each worker, at most 100. */
  workers: WorkerFit[];
  /** Earliest time of the next start, if the clock decides it. */
  next_at: string | null;
  /** Rough time of the next start, from recent starts in the lane; null if unknown. */
  estimate_at: string | null;
  /** The end; null for a run that has not ended. */
  end: End | null;
  /** Latest verdict of the policy; null without a policy. */
  verdict: VerdictInfo | null;
  /** Latest notes, oldest first, such as failed tries to place the run. */
  notes: Note[];
}

/** One thing that a run waits for, or that happens to it. */
export interface Reason {
  /** Kind. */
  kind: ReasonKind;
  /** The same in words, about the run. */
  text: string;
  /** Lane, session, rate, limit, worker or person that it is about. */
  name: string | null;
  /** Time at which it ends by itself. */
  at: string | null;
  /** Time at which it began. */
  since: string | null;
  /** Place among those that wait, from 1; at most 10,001. */
  place: number | null;
  /** First runs of those ahead, at most 5. */
  ahead: string[];
  /** Runs that it waits for, at most 5: they hold slots or turns. */
  holders: string[];
  /** Run that took over. */
  runs: string[];
}

export type ReasonKind = "approval" | "bulk" | "collected" | "constraint" | "debounce" | "delivery" | "draining" | "ended" | "executing" | "halted" | "held" | "lane_full" | "lane_paused" | "lane_turn" | "limit" | "no_worker" | "output" | "overlap" | "payload" | "policy" | "rate" | "ready" | "retried" | "retry" | "schedule_paused" | "scheduled_time" | "sent" | "session_paused" | "session_turn" | "starting" | "steps" | "stopping" | "tenant_limit" | "worker_away";

/** A worker, and whether the run could go there now. */
export interface WorkerFit {
  /** Id of the worker. */
  id: string;
  /** Whether it would take the run now. */
  fits: boolean;
  /** Why it is passed over, or is the last choice. */
  obstacle: Obstacle | null;
  /** The same in words. */
  text: string;
}

export type Obstacle = "capability" | "disconnected" | "draining" | "fault" | "full" | "label" | "overloaded" | "pool" | "silent" | "tenant" | "unknown_job";

/** How a run ended. */
export interface End {
  /** Time. */
  at: string | null;
  /** Reason. */
  reason: string;
  /** Who or what caused it. */
  actor: string;
  /** Outcome of the latest attempt. */
  outcome: string | null;
  /** Last line of the error. */
  error: string | null;
  /** Exit code of the process, if it had one. */
  exit_code: number | null;
  /** Attempts. */
  attempts: number;
  /** Attempts that failed. */
  failures: number;
  /** Attempts lost with their process or worker. */
  crashes: number;
}

/** The latest verdict of the policy on a run. */
export interface VerdictInfo {
  /** Decision. */
  decision: Ruling;
  /** Rule that decided; empty for the default, a list or a filter, and for a step of a workflow that asks. */
  rule: string;
  /** Reason that the rule gives. */
  reason: string;
  /** Digest of the policy; empty for a step of a workflow that asks. */
  policy: string;
  /** Limits of the run by name, with durations in seconds. */
  limits: Record<string, Json>;
  /** Time at which an approval was asked for. */
  asked_at: string | null;
  /** Time until which an approver could answer. */
  expires_at: string | null;
  /** Answer of the approver; null if there is none. */
  answer: AnswerInfo | null;
}

/** Failed runs in groups. */
export interface FailureList {
  /** Groups, the largest first. */
  failures: FailureGroup[];
  /** Runs in all of these groups. */
  runs: number;
  /** Creation of the oldest run looked at; null if all were looked at. */
  reached: string | null;
}

/** Runs of a job that failed in the same way. */
export interface FailureGroup {
  /** Job. */
  job: string;
  /** Last line of the error, or else the reason, with `#` in place of numbers. */
  error: string;
  /** Runs. */
  count: number;
  /** Runs by state. */
  states: Record<string, number>;
  /** End of the newest run. */
  newest: string;
  /** End of the oldest run. */
  oldest: string;
  /** The newest run. */
  run: string;
}

export interface FireTimes {
  /** Fire times, in order; fewer than asked for if there are no more. */
  times: string[];
}

export interface Health {
  /** Always true. */
  alive: boolean;
}

export interface History {
  /** Every transition, in order. */
  entries: HistoryEntry[];
}

/** One transition. */
export interface HistoryEntry {
  /** Id; the same transition always has the same one. */
  id: string;
  /** Number of the transition, from 1. */
  seq: number;
  /** State before; null for the first transition. */
  before: State | null;
  /** State after. */
  after: State;
  /** Time. */
  at: string;
  /** Attempt at that time. */
  attempt: number;
  /** Reason. */
  reason: string;
  /** Who or what caused it. */
  actor: string;
}

/** A job as it is now. */
export interface JobInfo {
  /** Id of the job. */
  id: string;
  /** Place of the declaration: file and line, `python`, or `api`. */
  source: string;
  /** Kind of work: `handler` (a function of the app), `container` or `function` or `process`. */
  kind: string;
  /** Program, function or job of the app, in words; null for a handler under its own id. */
  command: string | null;
  /** Lane whose slots the job's runs use: those of its schedule, if it has one. */
  lane: string;
  /** Place of its runs in the lane. */
  priority: Priority;
  /** Hash of the definition. */
  version: string;
  /** Most runs that may be live at once; null if only occurrences exclude each other. */
  max_concurrent_runs: number | null;
  /** Constraints and actions as declared, with durations in seconds and URLs without queries. */
  guards: Record<string, Json>;
  /** Topic by which policies and pools match it. */
  topic: string;
  /** Abilities that its runs use. */
  capabilities: string[];
  /** Risks of its runs. */
  risk_tags: string[];
  /** Capabilities that its runs need of a worker. */
  requires: string[];
  /** Labels that its runs start with. */
  labels: Record<string, string>;
  /** Sensitivity of its results. */
  sensitivity: Sensitivity;
  /** Schedule, with durations in seconds; null for a job that is only submitted or triggered. */
  schedule: Schedule | null;
  /** Schedule, in words. */
  schedule_text: string | null;
  /** Whether the schedule is paused. */
  paused: boolean;
  /** Next fire time; null if paused, past the last one, or without a schedule. */
  next_at: string | null;
  /** Workers whose code of the job differs from the scheduler's. */
  other_code: string[];
  /** Runs that have not ended. */
  live: number;
  /** Newest run that has begun or ended. */
  last_run: LastRun | null;
}

export type Sensitivity = "confidential" | "internal" | "public" | "secret";

/** When a job runs: exactly one of `once`, `at`, `every` and `cron`. */
export interface Schedule {
  /** `true`: once, after `wait`. */
  once?: boolean;
  /** Once, at this time. */
  at?: string | null;
  /** At this interval, first after `wait`. */
  every?: number | null;
  /** Cron expression of five fields: minute, hour, day of month, month, day of week; or one of `@hourly`, `@daily`, `@midnight`, `@weekly`, `@monthly`, `@yearly`, `@annually`. */
  cron?: string | null;
  /** Time zone of `cron`, or of an `at` without an offset; default UTC. */
  tz?: string | null;
  /** Delay of `once`, and of the first time of `every`, from when the job is first known. */
  wait?: number;
  /** Spread of fire times: each job fires at its own fixed delay within this. */
  jitter?: number;
  /** Missed occurrences to run: `none`, the `latest`, or `all`. */
  catch_up?: CatchUp;
  /** Age up to which a missed occurrence still runs. */
  catch_up_window?: number;
  /** Largest number of missed occurrences to run. */
  catch_up_max?: number;
  /** Whether an `at` job stays after its run. */
  keep?: boolean;
}

/** Missed occurrences to run. */
export type CatchUp = "all" | "latest" | "none";

/** A run in brief. */
export interface LastRun {
  /** Id of the run. */
  id: string;
  /** State of the run. */
  state: State;
  /** Reason for the state. */
  reason: string;
  /** Time at which the run was first due. */
  scheduled_at: string;
  /** Time of the end; null if the run has not ended. */
  ended_at: string | null;
}

export interface JobLog {
  /** Runs that have begun or ended, newest first. */
  runs: LoggedRun[];
}

/** A run with its output. */
export interface LoggedRun {
  /** Id of the run. */
  id: string;
  /** State of the run. */
  state: State;
  /** Reason for the state. */
  reason: string;
  /** Time at which the run was first due. */
  scheduled_at: string;
  /** Time of the end; null if the run has not ended. */
  ended_at: string | null;
  /** Origin: `submit`, `schedule`, `catch_up`, `trigger`, `backfill` or `retry`. */
  origin: string;
  /** Start of the first attempt. */
  started_at: string | null;
  /** Number of the latest attempt. */
  attempt: number;
  /** Exit code of the process, if it had one. */
  exit_code: number | null;
  /** Text and traceback of the latest failure, without secrets. */
  error: string | null;
  /** Printed and logged lines, without secrets; only the first 16 KiB. */
  output: string;
  /** Whether there is more output. */
  cut: boolean;
}

export interface JobPage {
  /** Jobs, in the order of their declaration. */
  jobs: JobInfo[];
  /** Cursor of the next page; null on the last. */
  next: string | null;
}

export interface LaneBody {
  /** Name of the lane. */
  id: string;
  /** Runs that may execute in it at once. */
  limit: number;
  /** Maximum start rate, such as `10/s`. */
  rate?: string | null;
  /** Starts allowed at once after an idle period. */
  burst?: number;
}

/** Values of a lane; those left out stay as they are. */
export interface LaneChangeBody {
  /** Runs that may execute in it at once. */
  limit?: number;
  /** Maximum start rate, such as `10/s`; null for no limit. */
  rate?: string | null;
  /** Starts allowed at once after an idle period. */
  burst?: number;
}

export interface LaneInfo {
  /** Runs that may execute in it at once. */
  limit: number;
  /** Maximum start rate, such as `10/s`; null for no limit. */
  rate: string | null;
  /** Starts allowed at once after an idle period. */
  burst: number;
  /** Name. */
  id: string;
  /** `open`, `paused` or `draining`. */
  status: LaneStatus;
  /** Runs that hold a slot. */
  active: number;
  /** Runs that wait for a slot. */
  waiting: number;
  /** Seconds of the longest wait so far; null if no run waits. */
  oldest_wait: number | null;
  /** Declared values, before changes at run time; null for a lane created at run time. */
  declared: LaneValues | null;
}

export type LaneStatus = "draining" | "open" | "paused";

export interface LaneValues {
  /** Runs that may execute in it at once. */
  limit: number;
  /** Maximum start rate, such as `10/s`; null for no limit. */
  rate: string | null;
  /** Starts allowed at once after an idle period. */
  burst: number;
}

export interface LaneList {
  /** Every lane. */
  lanes: LaneInfo[];
}

/** A dead letter with its run. */
export interface LetterDetail {
  /** Id of its run; a message that cannot be read has an id of its own. */
  id: string;
  /** Run that ended; null for a message that cannot be read. */
  run_id: string | null;
  /** Job of the run; empty without one. */
  job_id: string;
  /** Tenant of the run; empty without one. */
  tenant: string;
  /** Time. */
  at: string;
  /** Reason code. */
  code: LetterCode;
  /** Error, at most its first 2,000 characters. */
  error: string;
  /** Latest run that replays it. */
  replayed_as: string | null;
  /** Worker that sent a message that cannot be read. */
  worker_id: string | null;
  /** Run, with its payload and error; null without one. */
  run: RunDetail | null;
  /** Every transition of the run, in order. */
  history: HistoryEntry[];
  /** Beginning of a message that cannot be read, as base64. */
  raw: string | null;
}

/** A run with payload, result and figures. */
export interface RunDetail {
  /** Id. A later run has a greater id, occurrences excepted. */
  id: string;
  /** Job of the run. */
  job_id: string;
  /** Tenant of the run. */
  tenant: string;
  /** Session given at the submit. */
  session: string | null;
  /** Idempotency key given at the submit. */
  idempotency_key: string | null;
  /** Time of creation. */
  created_at: string;
  /** Time at which the run is, or was, first due. */
  scheduled_at: string;
  /** Time by which the run must have ended. */
  deadline_at: string | null;
  /** Hash of the job's definition that the run uses. */
  job_version: string;
  /** Lane whose slots the run uses. */
  lane: string;
  /** State. */
  state: State;
  /** State before this one. */
  previous: State | null;
  /** Reason for the state. */
  reason: string;
  /** Who or what caused the state. */
  actor: string;
  /** Who submitted the run; `scheduler` for an occurrence, `run ID` for a run's code. */
  created_by: string;
  /** Run that made this one: by a submit, an action, a check or a retry. */
  parent: string | null;
  /** Run at the top of its tree; null for a run without a parent. */
  root: string | null;
  /** Time of the last transition. */
  changed_at: string;
  /** Number of the current attempt, from 1; 0 before the first. */
  attempt: number;
  /** Attempts that failed. */
  failures: number;
  /** Attempts lost with their process or worker. */
  crashes: number;
  /** Worker that has the run, or had it last. */
  worker_id: string | null;
  /** Time for which the run waits. */
  due_at: string | null;
  /** Start of the first attempt. */
  started_at: string | null;
  /** Start of the latest attempt. */
  attempt_started_at: string | null;
  /** Kind of stop under way, such as `cancel` or `timeout`. */
  stop: string | null;
  /** Reason given for the stop. */
  stop_reason: string | null;
  /** Time of the end. */
  ended_at: string | null;
  /** Outcome of the latest attempt. */
  outcome: string | null;
  /** Exit code of the process, if it had one. */
  exit_code: number | null;
  /** Signs of life received from workers. */
  heartbeats: number;
  /** Whether an attempt left a checkpoint. */
  has_checkpoint: boolean;
  /** Origin: `submit`, `schedule`, `catch_up`, `trigger`, `backfill` or `retry`. */
  origin: string;
  /** Figures by which the scheduler keeps the run in order. */
  internals: RunInternals;
  /** Text and traceback of the latest failure, without secrets. A list has its last 1,024 characters. */
  error: string | null;
  /** Parts that only some runs have, such as `hold`, by name. */
  facets: Facets;
  /** Latest progress. A list has it only for ended runs. */
  progress: ProgressInfo | null;
  /** Arguments; secrets are shown as `•••`. */
  payload: Json;
  /** Return value of the handler. */
  result: Json;
  /** Figures. */
  stats: RunStats;
}

/** Figures by which the scheduler keeps a run in order. */
export interface RunInternals {
  /** Number of transitions so far. */
  seq: number;
  /** Number of the dispatch; reports of an older one have no effect. */
  fence: number;
  /** Who or what asked for the stop under way. */
  stop_actor: string | null;
}

/** The figures of a run. */
export interface RunStats {
  /** Seconds spent in each state. */
  seconds_in: Record<string, number>;
  /** Transitions. */
  transitions: number;
  /** Constraints checked. */
  constraints_checked: number;
  /** Constraints violated. */
  constraints_violated: number;
  /** Actions carried out. */
  actions_run: number;
  /** Actions that failed. */
  actions_failed: number;
  /** Attempts. */
  attempts: number;
  /** Attempts that failed. */
  failures: number;
  /** Attempts lost with their process or worker. */
  crashes: number;
  /** Signs of life received from workers. */
  heartbeats: number;
  /** Seconds from when the run was due to its start. */
  start_latency: number | null;
  /** Exit code of the process, if it had one. */
  exit_code: number | null;
  /** Outcome of the latest attempt. */
  outcome: string | null;
}

/** One page of dead letters. */
export interface LetterPage {
  /** Dead letters, newest first. */
  letters: LetterInfo[];
  /** Number of letters that match, by code; only on the first page. */
  counts: Record<string, number> | null;
  /** Cursor of the next page; null on the last. */
  next: string | null;
}

/** A dead letter. */
export interface LetterInfo {
  /** Id of its run; a message that cannot be read has an id of its own. */
  id: string;
  /** Run that ended; null for a message that cannot be read. */
  run_id: string | null;
  /** Job of the run; empty without one. */
  job_id: string;
  /** Tenant of the run; empty without one. */
  tenant: string;
  /** Time. */
  at: string;
  /** Reason code. */
  code: LetterCode;
  /** Error, at most its first 2,000 characters. */
  error: string;
  /** Latest run that replays it. */
  replayed_as: string | null;
  /** Worker that sent a message that cannot be read. */
  worker_id: string | null;
}

export interface LettersBody {
  /** Reason, kept with new runs. */
  reason?: string;
  /** Only letters with this reason code. */
  code?: LetterCode | null;
  /** Only letters of this job. */
  job?: string | null;
  /** Only letters of this tenant. */
  tenant?: string | null;
  /** Only letters since then, in RFC 3339 or seconds since 1970. */
  since?: string | number | null;
  /** Only letters before this time, in the same form. */
  until?: string | number | null;
  /** `true`: only letters that were replayed; `false`: only others. */
  replayed?: boolean | null;
  /** `true`: every letter; needed without other fields. */
  all?: boolean;
}

export interface LogPage {
  /** Lines, oldest first. */
  lines: LogLine[];
  /** Cursor of the next page; null on the last. */
  next: string | null;
}

export interface LogLine {
  /** Time of writing. */
  at: string;
  /** Attempt that wrote the line. */
  attempt: number;
  /** Level, such as `info`. */
  level: string;
  /** Line, without secrets. */
  text: string;
  /** Name of the logger, `stdout` or `stderr`; empty for lines of `ctx.log`. */
  logger: string;
}

/** The caller as the server knows them. */
export interface Me {
  /** Name of the token; `local` for the server's own user without one. */
  name: string;
  /** Role of the token. */
  role: Role;
  /** Tenant of the token; `*` for all. */
  tenant: string;
  /** Permissions; `every tenant` stands for what belongs to all tenants. */
  may: string[];
  /** The other permissions, each with the reason. */
  may_not: Record<string, string>;
  /** End of the session; null for a caller who did not sign in. */
  until: string | null;
}

export type Role = "admin" | "approver" | "gateway" | "operator" | "viewer" | "worker";

/** What runs, what waits and why, and what needs a person. */
export interface Overview {
  /** What needs a person, the most urgent first. */
  needs: Need[];
  /** Waiting runs by reason, the most frequent first. */
  waiting: WaitingRuns[];
  /** Further waiting runs: only the 1,000 longest queues are explained. */
  unexplained: number;
  /** Runs that have not ended, by state. */
  states: Record<string, number>;
  /** Lanes; empty for callers of one tenant. */
  lanes: LaneInfo[];
  /** Connected workers. */
  workers: number;
  /** Digest of the policy in force; null without one. */
  policy: string | null;
}

/** Something that a person has to look at. */
export interface Need {
  /** Kind. */
  kind: NeedKind;
  /** The same in words. */
  text: string;
  /** More about it, such as the reason or the error of the newest. */
  detail: string;
  /** Lane, job or service that it is about. */
  name: string | null;
  /** How many there are, such as runs that wait for an approval. */
  count: number;
  /** Time at which it began; of several, the oldest. */
  since: string | null;
  /** Time at which it ends by itself; of several, the first. */
  until: string | null;
  /** A run that it is about; of several, the first to end. */
  run: string | null;
}

export type NeedKind = "approval" | "dead_letter" | "lane" | "schedule" | "service" | "workflow";

/** Waiting runs with the same reason. The first run of each queue is explained, and its queue is counted with it. */
export interface WaitingRuns {
  /** Kind of the reason. */
  kind: ReasonKind;
  /** Lane, rate, limit, rule or person that it is about. */
  name: string | null;
  /** Job of the oldest run. */
  job: string;
  /** The reason in words, about the oldest run. */
  text: string;
  /** Runs. */
  count: number;
  /** Time since when the oldest run waits. */
  since: string;
  /** The oldest run. */
  run: string;
  /** Time at which the wait of the oldest run ends by itself. */
  at: string | null;
  /** Recent starts a second of its lane, if it waits there. */
  pace: number | null;
  /** Runs that the oldest one waits for, at most 5. */
  holders: string[];
}

/** The policy in force. */
export interface PolicyInfo {
  /** Name; null without a policy of this server. */
  id: string | null;
  /** Digest; null without a policy. */
  digest: string | null;
  /** Whether a policy service judges runs; then the server does not know the rules. */
  remote: boolean;
  /** Decision if no rule matches. */
  default_decision: Ruling | null;
  /** Rules, checked top down; the first that matches decides. */
  rules: RuleInfo[];
  /** Verdicts since the scheduler started, by decision. */
  default_verdicts: Record<string, number>;
}

/** A rule of the policy in force. */
export interface RuleInfo {
  /** Name. */
  id: string;
  /** Decision. */
  decision: Ruling;
  /** Reason that people are shown. */
  reason: string;
  /** Conditions that it sets. */
  match: Record<string, Json>;
  /** Condition in CEL. */
  when: string | null;
  /** Verdicts since the scheduler started, by decision. */
  verdicts: Record<string, number>;
}

export interface PoolList {
  /** Declared pools in order of declaration, then others by name. */
  pools: PoolInfo[];
}

/** A pool with its workers. */
export interface PoolInfo {
  /** Name. */
  id: string;
  /** Whether a document declares it; if not, it exists because a worker names it. */
  declared: boolean;
  /** `active`, `draining` or `inactive`. */
  status: PoolStatus;
  /** Topics of the runs that it takes; `*` stands for any text. */
  topics: string[];
  /** Capabilities that each of its workers has; `*` stands for all. */
  offers: string[];
  /** Capabilities that a worker must announce to join it. */
  requires: string[];
  /** Workers in it, those that are away included. */
  workers: number;
  /** Workers that would get a run now. */
  ready: number;
  /** Runs that its workers have. */
  active: number;
  /** Most runs that its workers execute at once. */
  slots: number;
}

export type PoolStatus = "active" | "draining" | "inactive";

export interface Readiness {
  /** Whether every check passed. */
  ready: boolean;
  /** Checks by name: `store`, `scheduler`. */
  checks: Record<string, ReadinessCheck>;
}

export interface ReadinessCheck {
  /** Whether the check passed. */
  ok: boolean;
  /** Finding, in words. */
  detail: string;
}

export interface ReasonBody {
  /** Reason, kept with the run. */
  reason?: string;
}

export interface ReleaseBody {
  /** Reason, kept with the run and in the audit; up to 500 characters. */
  reason: string;
}

export interface Reloaded {
  /** Changes of jobs. */
  jobs: Difference;
  /** Changes of services and their groups. */
  services: Difference;
  /** Changes of the policy, by its name. */
  policy: Difference;
}

/** Names of one kind of thing, by what happened to them. */
export interface Difference {
  /** New. */
  added: string[];
  /** Defined differently; services were restarted. */
  changed: string[];
  /** Removed; services were stopped. */
  removed: string[];
  /** Left as they are. */
  unchanged: string[];
}

export interface ReplayBody {
  /** Arguments to change, checked like those of a submit; others keep their values. */
  payload?: Record<string, Json> | null;
  /** Reason, kept with the new run. */
  reason?: string;
}

export interface ResolveBody {
  /** Reason, kept with the run and in the audit; up to 500 characters. */
  reason: string;
  /** `seen` of the approval that you looked at; `stale` if request or policy have changed since. */
  seen?: string | null;
}

export interface RetryRunBody {
  /** Reason, kept with the run. */
  reason?: string;
  /** Step of a workflow: begin with it, and take over the steps before it with their results. */
  from?: string | null;
}

/** A run as it is now. */
export interface RunInfo {
  /** Id. A later run has a greater id, occurrences excepted. */
  id: string;
  /** Job of the run. */
  job_id: string;
  /** Tenant of the run. */
  tenant: string;
  /** Session given at the submit. */
  session: string | null;
  /** Idempotency key given at the submit. */
  idempotency_key: string | null;
  /** Time of creation. */
  created_at: string;
  /** Time at which the run is, or was, first due. */
  scheduled_at: string;
  /** Time by which the run must have ended. */
  deadline_at: string | null;
  /** Hash of the job's definition that the run uses. */
  job_version: string;
  /** Lane whose slots the run uses. */
  lane: string;
  /** State. */
  state: State;
  /** State before this one. */
  previous: State | null;
  /** Reason for the state. */
  reason: string;
  /** Who or what caused the state. */
  actor: string;
  /** Who submitted the run; `scheduler` for an occurrence, `run ID` for a run's code. */
  created_by: string;
  /** Run that made this one: by a submit, an action, a check or a retry. */
  parent: string | null;
  /** Run at the top of its tree; null for a run without a parent. */
  root: string | null;
  /** Time of the last transition. */
  changed_at: string;
  /** Number of the current attempt, from 1; 0 before the first. */
  attempt: number;
  /** Attempts that failed. */
  failures: number;
  /** Attempts lost with their process or worker. */
  crashes: number;
  /** Worker that has the run, or had it last. */
  worker_id: string | null;
  /** Time for which the run waits. */
  due_at: string | null;
  /** Start of the first attempt. */
  started_at: string | null;
  /** Start of the latest attempt. */
  attempt_started_at: string | null;
  /** Kind of stop under way, such as `cancel` or `timeout`. */
  stop: string | null;
  /** Reason given for the stop. */
  stop_reason: string | null;
  /** Time of the end. */
  ended_at: string | null;
  /** Outcome of the latest attempt. */
  outcome: string | null;
  /** Exit code of the process, if it had one. */
  exit_code: number | null;
  /** Signs of life received from workers. */
  heartbeats: number;
  /** Whether an attempt left a checkpoint. */
  has_checkpoint: boolean;
  /** Origin: `submit`, `schedule`, `catch_up`, `trigger`, `backfill` or `retry`. */
  origin: string;
  /** Figures by which the scheduler keeps the run in order. */
  internals: RunInternals;
  /** Text and traceback of the latest failure, without secrets. A list has its last 1,024 characters. */
  error: string | null;
  /** Parts that only some runs have, such as `hold`, by name. */
  facets: Facets;
  /** Latest progress. A list has it only for ended runs. */
  progress: ProgressInfo | null;
}

/** One page of runs. */
export interface RunPage {
  /** Runs, newest first. A page may be short, even empty, although more follow. */
  runs: RunInfo[];
  /** Cursor of the next page; null on the last. */
  next: string | null;
  /** With `text` and a next page: creation of the oldest run looked at so far. */
  reached: string | null;
}

/** The record of a run: what its function is replayed from. */
export interface RunRecord {
  /** Id of the workflow. */
  workflow: string;
  /** Id of the run. */
  run_id: string;
  /** State of the run. */
  state: State;
  /** Arguments of the round; secrets are masked. */
  payload: Json;
  /** Time at which the round began. */
  began_at: string;
  /** Number of the round, from 1. */
  round: number;
  /** Steps of the round, in the order in which the function asked for them. */
  steps: StepRecord[];
  /** Ended steps that its function has seen; null before its first turn. */
  seen: number | null;
  /** Whether the end of the run is decided. */
  ended: boolean;
  /** Step with which the run begins; those before it are taken over from another run. */
  begins_with: string | null;
  /** Run from which random numbers and ids come; empty for this one. */
  seed: string;
  /** Names for which `changed` is true. */
  changes: string[];
}

/** A step that the function asked for. */
export interface StepRecord {
  /** Name of the step. */
  name: string;
  /** SHA-256 of its arguments as JSON with sorted keys, secrets masked. */
  arguments: string;
  /** Place in the order of completion, from 0; null while the function has not seen its end. */
  place: number | null;
  /** State in which it ended. */
  state: State | null;
  /** Time of its end. */
  at: string | null;
  /** Its result; null if it is withheld. */
  result: Json;
  /** Its error. */
  error: string;
}

export interface ServiceList {
  /** Services and groups in the order in which they start, each group before its members. */
  services: ChildInfo[];
}

export interface ServiceLogPage {
  /** Lines, oldest first. */
  lines: ServiceLine[];
  /** Cursor of what follows; never null, because more may come. */
  next: string;
}

/** A line that a service printed, or something that happened to it. */
export interface ServiceLine {
  /** Time. */
  at: string;
  /** `stdout` or `stderr`; `status` for something that happened to the service. */
  stream: string;
  /** Line. */
  text: string;
}

/** One page of sessions. */
export interface SessionPage {
  /** Sessions with runs that have not ended, by tenant and key. */
  sessions: SessionInfo[];
  /** Cursor of the next page; null on the last. */
  next: string | null;
}

export interface SignInBody {
  /** The token. */
  token: string;
}

/** A session of a browser. */
export interface SignedIn {
  /** Text to send as `X-Interlock-Secret` with every request, beside the cookie. */
  secret: string;
  /** End of the session. */
  until: string;
}

/** One page of the steps of a run. */
export interface StepPage {
  /** Steps, in the order in which they began. */
  steps: RunInfo[];
  /** Graph of the workflow; null for a function, and for any other run. */
  graph: StepGraph | null;
  /** Cursor of the next page; null on the last. */
  next: string | null;
}

/** The graph with which a workflow run began. */
export interface StepGraph {
  /** Step → the steps that must be done before it. */
  needs: Record<string, string[]>;
  /** Step that runs only after an error → the steps whose error that is. */
  on_error: Record<string, string[]>;
  /** Parallel step → the steps inside it, which begin after it. */
  inside: Record<string, string[]>;
}

export interface SubmittedBatch {
  /** Ids of the runs, in the order of the request. */
  ids: string[];
}

/** One page of tallies. */
export interface TallyPage {
  /** Tallies, the newest first. */
  tallies: TallyInfo[];
  /** Cursor of the next page; null on the last. */
  next: string | null;
}

/** Runs that ended within a minute in a lane, or within an hour for a job of a tenant. */
export interface TallyInfo {
  /** Beginning of the minute or hour. */
  at: string;
  /** Lane; null if it is about a job. */
  lane: string | null;
  /** Tenant; null if it is about a lane. */
  tenant: string | null;
  /** Job; null if it is about a lane. */
  job: string | null;
  /** Runs that ended, by state. */
  states: Record<string, number>;
  /** Seconds from the time due to the first start. */
  waited: Spread;
  /** Seconds from the first start to the end. */
  took: Spread;
}

/** How long something took for many runs, in seconds. Quantiles are up to a fifth too high. */
export interface Spread {
  /** Runs. */
  count: number;
  /** Mean. */
  mean: number | null;
  /** A tenth took at most this. */
  p10: number | null;
  /** Half took at most this. */
  p50: number | null;
  /** 19 of 20 took at most this. */
  p95: number | null;
  /** The longest. */
  most: number | null;
}

export interface TenantList {
  /** Every declared tenant that the caller sees, and those that have runs under the limits of `*`. */
  tenants: TenantInfo[];
}

export interface TenantInfo {
  /** Name; `*` stands for all tenants without a document. */
  id: string;
  /** Its runs that hold a slot. */
  running: number;
  /** Its runs that have not ended and hold no slot. */
  waiting: number;
  /** Requests refused with `tenant_limit` since the scheduler began. */
  refused: number;
  /** Most runs that may hold a slot; null for no limit. */
  max_running: number | null;
  /** Most runs that may wait; null for no limit. */
  max_waiting: number | null;
  /** Maximum rate, such as `10/s`; null for no limit. */
  rate: string | null;
  /** Runs allowed at once after an idle period. */
  burst: number;
  /** `wait` or `refuse`. */
  over_limit: OverLimit;
  /** Lanes that it may use; empty for all. */
  lanes: string[];
  /** Labels of its runs. */
  labels: Record<string, string>;
}

export type OverLimit = "refuse" | "wait";

/** The fire times from `now` until `until`. */
export interface Timetable {
  /** Start. */
  now: string;
  /** End. */
  until: string;
  /** Jobs that fire, the first to fire first. */
  jobs: JobTimes[];
  /** Further jobs that fire, beyond `limit`. */
  left_out: number;
}

export interface JobTimes {
  /** Id of the job. */
  job_id: string;
  /** Fire times, in order; fewer than asked for if there are no more. */
  times: string[];
  /** Whether times were left out: a job lists at most 20,000, a timetable 50,000. */
  more: boolean;
}

/** A run of the job in the path, due at once. */
export interface TriggerBody {
  /** Arguments; by default the job's own. */
  payload?: Record<string, Json> | null;
  /** Tenant of the run; by default the token's own, or `default` without tokens. */
  tenant?: string | null;
  /** Lane; by default the job's own. */
  lane?: string | null;
  /** Key shared by runs that wait for each other: up to 512 bytes of UTF-8. */
  session?: string | null;
  /** Idempotency key: a repeated submit finds the same run. */
  idempotency_key?: string | null;
  /** Time from the submit, or from when the run is due, until it must have ended. */
  deadline?: string | number | null;
  /** Labels of the run: up to 16 names, each with a text of up to 256 characters. */
  labels?: Record<string, string> | null;
  /** Place in the lane; by default the job's own. */
  priority?: Priority | null;
  /** Options of the session that differ from those of its key or its job: mode, max_concurrent, debounce, cap, drop, rate, burst. */
  session_options?: SessionOptionsBody | null;
  /** Time at which the message of the session was sent; by default now. In RFC 3339, or seconds since 1970. */
  stamp?: string | number | null;
  /** `while_live` frees the key when its run ends; without it, the key is kept for `keep_keys`. */
  unique?: "while_live" | null;
}

export interface WorkerInfo {
  /** Id. */
  id: string;
  /** Pool. */
  pool: string;
  /** Its label `region`; null without one. */
  region: string | null;
  /** `ready`, `full`, `overloaded`, `draining`, `silent` or `away`. */
  state: WorkerState;
  /** Whether somebody has drained it: it gets nothing new until it is resumed. */
  drained: boolean;
  /** Runs that it has. */
  active: number;
  /** Most runs that it executes at once. */
  slots: number;
  /** Most runs with a process of their own. */
  processes: number;
  /** Load of its machine's processors, in percent. */
  cpu: number;
  /** Memory of its machine in use, in percent. */
  memory: number;
  /** Load of its busiest GPU, in percent. */
  gpu: number;
  /** Seconds since its last sign of life, or since the start of the scheduler. */
  heard_ago: number;
  /** Seconds by which its clock is ahead of the scheduler's. */
  skew: number;
  /** Jobs of the app that it has loaded. */
  jobs: number;
  /** Capabilities that it announced. */
  capabilities: string[];
  /** Labels that it announced. */
  labels: Record<string, string>;
  /** Tenants whose runs it may have; null for all. */
  tenants: string[] | null;
}

export type WorkerState = "away" | "draining" | "full" | "overloaded" | "ready" | "silent";

export interface WorkerList {
  /** Every worker, by pool and id. */
  workers: WorkerInfo[];
}

export interface WorkflowEventBody {
  /** Idempotency key of the run. */
  key: string;
  /** Name of the event: letters, digits and `_`. */
  name: string;
  /** Its value: JSON without secrets, up to 1 MiB. */
  value?: Json;
  /** Tenant of the run; by default the token's own, or `default` without tokens. */
  tenant?: string | null;
  /** `true`: start a run with this key if none is live. */
  or_start?: boolean;
  /** Arguments of that run. */
  payload?: Record<string, Json> | null;
  /** Makes the event safe to repeat, as the header `Idempotency-Key` does. */
  idempotency_key?: string | null;
}

/** One page of workflow runs. */
export interface WorkflowPage {
  /** Workflow runs under way, newest first. */
  workflows: WorkflowInfo[];
  /** Cursor of the next page; null on the last. */
  next: string | null;
}

export interface WorkflowInfo {
  /** Id of the run. */
  run_id: string;
  /** Id of the workflow. */
  job_id: string;
  /** Tenant. */
  tenant: string;
  /** `waiting` for steps, `closing`: its end is decided and its steps stop, `rolling_back`: compensations run, or `halted`: its code does not fit its record. */
  status: WorkflowStatus;
  /** Whether a function decides its steps, and no graph. */
  is_function: boolean;
  /** Time of its start. */
  started_at: string | null;
  /** Steps that have ended. */
  ended: number;
  /** Steps that have not ended. */
  live: number;
  /** What it waits for, as a sentence. */
  waits_for: string;
}

export type WorkflowStatus = "closing" | "halted" | "rolling_back" | "waiting";

/** The first event of a stream. A stream of one run with `after` sends it again after the stored events. */
export interface HelloEvent {
  /** Cursor after which the stream sends everything. */
  cursor: string;
}

/** The transitions that one commit made to one run. */
export interface RunEvent {
  /** Id of the run. */
  run_id: string;
  /** Job of the run. */
  job_id: string;
  /** Tenant of the run. */
  tenant: string;
  /** State after the transitions. */
  state: State;
  /** Transitions, in order. */
  transitions: HistoryEntry[];
}

export interface LogEvent {
  /** Time of writing. */
  at: string;
  /** Attempt that wrote the line. */
  attempt: number;
  /** Level, such as `info`. */
  level: string;
  /** Line, without secrets. */
  text: string;
  /** Name of the logger, `stdout` or `stderr`; empty for lines of `ctx.log`. */
  logger: string;
  /** Id of the run. */
  run_id: string;
  /** Job of the run. */
  job_id: string;
  /** Tenant of the run. */
  tenant: string;
}

/** Chunks that a run has emitted to its stream. No chunks: the stream is cut at a limit. */
export interface ChunkEvent {
  /** Id of the run. */
  run_id: string;
  /** Job of the run. */
  job_id: string;
  /** Tenant of the run. */
  tenant: string;
  /** Time of the last chunk. */
  at: string;
  /** Attempt that emitted the chunks. A retry begins the stream again. */
  attempt: number;
  /** Chunks, in order; each a text or another JSON value, without secrets. */
  chunks: Json[];
}

export interface ProgressEvent {
  /** Progress from 0 to 100. */
  percent: number;
  /** Current activity of the attempt. */
  text: string;
  /** Id of the run. */
  run_id: string;
  /** Job of the run. */
  job_id: string;
  /** Tenant of the run. */
  tenant: string;
}

/** A change of a service. */
export interface ServiceEvent {
  /** Name of the service. */
  service: string;
  /** Time. */
  at: string;
  /** Change, in words. */
  text: string;
  /** Place in the tree. */
  path: string;
  /** Service before, without its children; null if it was added. */
  before: ChildInfo | null;
  /** Service after, without its children; null if it was removed. */
  after: ChildInfo | null;
}

export interface ServiceLogEvent {
  /** Time. */
  at: string;
  /** `stdout` or `stderr`; `status` for something that happened to the service. */
  stream: string;
  /** Line. */
  text: string;
  /** Name of the service. */
  service: string;
}

/** A change of a lane at run time. */
export interface LaneEvent {
  /** Name of the lane. */
  lane: string;
  /** Time. */
  at: string;
  /** `create`, `set`, `pause`, `resume` or `drain`. */
  action: string;
  /** Who asked for it. */
  actor: string;
  /** Lane after the change. */
  after: LaneInfo;
}

/** A change of jobs at run time. */
export interface JobEvent {
  /** Time. */
  at: string;
  /** `put`, `dropped`, `paused`, `resumed` or `reloaded`. */
  action: string;
  /** Who asked for it. */
  actor: string;
  /** Jobs put, dropped, paused or resumed; of a reload, those that differ. */
  jobs: string[];
  /** Number of these jobs; `jobs` has the first 100. */
  count: number;
}

/** An act on a session. The runs that it ended have events of their own. */
export interface SessionEvent {
  /** Key of the session. */
  session: string;
  /** Tenant of the session. */
  tenant: string;
  /** Time. */
  at: string;
  /** `stop`, `stopall`, `reset`, `pause` or `resume`. */
  action: SessionAction;
  /** Who asked for it. */
  actor: string;
  /** Session after the act. */
  after: SessionInfo;
}

export type SessionAction = "pause" | "reset" | "resume" | "stop" | "stopall";

/** A run violated a constraint, or is late. */
export interface ViolationEvent {
  /** Id of the run. */
  run_id: string;
  /** Job of the run. */
  job_id: string;
  /** Tenant of the run. */
  tenant: string;
  /** Time. */
  at: string;
  /** Constraint, such as `max_concurrent_runs`. */
  constraint: string;
  /** Violation, in words. */
  message: string;
}

/** Events were left out. A stream opened with `after` sends them. */
export interface GapEvent {
  /** Cursor before the first event left out. */
  after: string;
  /** Cursor of the last event left out. */
  until: string;
}

export interface JobsBody {
  /** Jobs, each with its `id`. */
  jobs: NamedJobBody[];
}

/** A job. */
export interface JobBody {
  /** When it runs; without one, when it is submitted or triggered. */
  schedule?: ScheduleBody | null;
  /** Default arguments of its runs. */
  payload?: Record<string, Json> | null;
  /** Lane whose slots its runs take; default `cron` for occurrences of its schedule, `main` for other runs. */
  lane?: string | number | boolean | null;
  /** Its runs' place in the lane: `critical`, `interactive` or `batch`. */
  priority?: "critical" | "interactive" | "batch";
  /** How often and when a failed run is tried again. */
  retry?: RetryBody;
  /** Maximum start rate, such as `10/s`. */
  rate?: string | number | null;
  /** Starts allowed at once after an idle period. */
  burst?: number;
  /** Most runs at once, and the highest rate of starts, for each value of an argument. */
  limit?: KeyLimitBody | null;
  /** Options of the sessions that its runs are submitted to. */
  sessions?: SessionOptionsBody | null;
  /** Time from its due time within which a run must end. */
  deadline?: string | number | null;
  /** Longest time from the first start of a run; `grace` to stop comes on top. */
  max_runtime?: string | number | null;
  /** Whether `max_runtime` counts anew for each attempt. */
  max_runtime_per_attempt?: boolean;
  /** Longest time in which a container must start, pulling its image included. */
  start_timeout?: string | number;
  /** Times a run may lose its process. */
  max_crashes?: number;
  /** Time between the request to stop, TERM and KILL; a process gets TERM at once. */
  grace?: string | number;
  /** Topic by which policies and pools match it; default: its id. */
  topic?: string | number | boolean | null;
  /** Abilities that its runs use, for policies. */
  capabilities?: (string | number | boolean)[];
  /** Risks of its runs, for policies. */
  risk_tags?: (string | number | boolean)[];
  /** Capabilities that its runs need of a worker; for policies too. */
  requires?: (string | number | boolean)[];
  /** Labels of its runs. */
  labels?: Record<string, string | number | boolean> | null;
  /** Sensitivity of its results: `public`, `internal`, `confidential` or `secret`. */
  sensitivity?: "public" | "internal" | "confidential" | "secret";
  /** Conditions on its runs. */
  constraints?: ConstraintsBody;
  /** Actions when a constraint is violated; by default `wait` for `max_concurrent_runs`, else `skip`. */
  on_constraint_violation?: string | ActionBody | (string | ActionBody)[];
  /** Actions after a run has failed, timed out or been given up. */
  on_failure?: string | ActionBody | (string | ActionBody)[];
  /** Actions after a run has succeeded. */
  on_success?: string | ActionBody | (string | ActionBody)[];
  /** Actions when a run exceeds `max_expected_run_time`. */
  on_late?: string | ActionBody | (string | ActionBody)[];
  /** What it does. */
  run: JobRunBody;
  /** Variables of a process; null takes one away. */
  env?: Record<string, string | number | boolean | null>;
  /** Folder of a process. */
  cwd?: string | number | boolean | null;
  /** Whether a process reads the payload from standard input, as one line of JSON. */
  stdin?: boolean;
  /** Limits on a process. */
  limits?: LimitsBody;
}

/** A job with its id. */
export interface NamedJobBody {
  /** Name of the job. */
  id: string | number | boolean;
  /** When it runs; without one, when it is submitted or triggered. */
  schedule?: ScheduleBody | null;
  /** Default arguments of its runs. */
  payload?: Record<string, Json> | null;
  /** Lane whose slots its runs take; default `cron` for occurrences of its schedule, `main` for other runs. */
  lane?: string | number | boolean | null;
  /** Its runs' place in the lane: `critical`, `interactive` or `batch`. */
  priority?: "critical" | "interactive" | "batch";
  /** How often and when a failed run is tried again. */
  retry?: RetryBody;
  /** Maximum start rate, such as `10/s`. */
  rate?: string | number | null;
  /** Starts allowed at once after an idle period. */
  burst?: number;
  /** Most runs at once, and the highest rate of starts, for each value of an argument. */
  limit?: KeyLimitBody | null;
  /** Options of the sessions that its runs are submitted to. */
  sessions?: SessionOptionsBody | null;
  /** Time from its due time within which a run must end. */
  deadline?: string | number | null;
  /** Longest time from the first start of a run; `grace` to stop comes on top. */
  max_runtime?: string | number | null;
  /** Whether `max_runtime` counts anew for each attempt. */
  max_runtime_per_attempt?: boolean;
  /** Longest time in which a container must start, pulling its image included. */
  start_timeout?: string | number;
  /** Times a run may lose its process. */
  max_crashes?: number;
  /** Time between the request to stop, TERM and KILL; a process gets TERM at once. */
  grace?: string | number;
  /** Topic by which policies and pools match it; default: its id. */
  topic?: string | number | boolean | null;
  /** Abilities that its runs use, for policies. */
  capabilities?: (string | number | boolean)[];
  /** Risks of its runs, for policies. */
  risk_tags?: (string | number | boolean)[];
  /** Capabilities that its runs need of a worker; for policies too. */
  requires?: (string | number | boolean)[];
  /** Labels of its runs. */
  labels?: Record<string, string | number | boolean> | null;
  /** Sensitivity of its results: `public`, `internal`, `confidential` or `secret`. */
  sensitivity?: "public" | "internal" | "confidential" | "secret";
  /** Conditions on its runs. */
  constraints?: ConstraintsBody;
  /** Actions when a constraint is violated; by default `wait` for `max_concurrent_runs`, else `skip`. */
  on_constraint_violation?: string | ActionBody | (string | ActionBody)[];
  /** Actions after a run has failed, timed out or been given up. */
  on_failure?: string | ActionBody | (string | ActionBody)[];
  /** Actions after a run has succeeded. */
  on_success?: string | ActionBody | (string | ActionBody)[];
  /** Actions when a run exceeds `max_expected_run_time`. */
  on_late?: string | ActionBody | (string | ActionBody)[];
  /** What it does. */
  run: JobRunBody;
  /** Variables of a process; null takes one away. */
  env?: Record<string, string | number | boolean | null>;
  /** Folder of a process. */
  cwd?: string | number | boolean | null;
  /** Whether a process reads the payload from standard input, as one line of JSON. */
  stdin?: boolean;
  /** Limits on a process. */
  limits?: LimitsBody;
}

/** When a job runs: exactly one of `once`, `at`, `every` and `cron`. */
export interface ScheduleBody {
  /** `true`: once, after `wait`. */
  once?: boolean;
  /** Once, at this time. */
  at?: string | number | null;
  /** At this interval, first after `wait`. */
  every?: string | number | null;
  /** Cron expression of five fields: minute, hour, day of month, month, day of week; or one of `@hourly`, `@daily`, `@midnight`, `@weekly`, `@monthly`, `@yearly`, `@annually`. */
  cron?: string | null;
  /** Time zone of `cron`, or of an `at` without an offset; default UTC. */
  tz?: string | number | boolean | null;
  /** Delay of `once`, and of the first time of `every`, from when the job is first known. */
  wait?: string | number;
  /** Spread of fire times: each job fires at its own fixed delay within this. */
  jitter?: string | number;
  /** Missed occurrences to run: `none`, the `latest`, or `all`. */
  catch_up?: "none" | "latest" | "all";
  /** Age up to which a missed occurrence still runs. */
  catch_up_window?: string | number;
  /** Largest number of missed occurrences to run. */
  catch_up_max?: number;
  /** Whether an `at` job stays after its run. */
  keep?: boolean;
}

/** How often and after which delays a failed run is tried again; delays in seconds. */
export interface RetryBody {
  /** Number of retries; default 3 with `every`, `cron` or `at`, 0 otherwise. */
  max_retries?: number | null;
  /** First delay. */
  initial_delay?: string | number;
  /** Factor from each delay to the next. */
  multiplier?: number;
  /** Longest delay. */
  max_delay?: string | number;
  /** Share by which each delay is randomly longer or shorter. */
  jitter?: number;
  /** Exceptions that are retried; by default all. */
  on?: string[];
  /** Exceptions that are not retried, whatever `on` says. */
  never?: string[];
}

/** A limit on the runs of a job that share a value in their payload: how many execute at once, how often one starts, or both. */
export interface KeyLimitBody {
  /** Argument whose value is counted. Runs without it count as those with null. */
  key: string;
  /** Runs with one value that may execute at once. */
  max?: number | null;
  /** Maximum rate of starts with one value, such as `10/s`. */
  rate?: string | number | null;
  /** Starts with one value allowed at once after an idle period. */
  burst?: number;
}

/** How the runs of a session wait for each other. */
export interface SessionOptionsBody {
  /** `queue` or `followup` in order of arrival; `interrupt` cancels all others for the new run. */
  mode?: "queue" | "followup" | "interrupt";
  /** Runs of the session that may execute at once. */
  max_concurrent?: number;
  /** Time without a further arrival before a run starts; those that arrive meanwhile become one. */
  debounce?: string | number;
  /** Most runs that wait. */
  cap?: number;
  /** Run to drop at `cap`: `old` cancels the oldest waiting run, `new` refuses the new one. */
  drop?: "old" | "new";
  /** Maximum start rate, such as `10/s`. */
  rate?: string | number | null;
  /** Starts allowed at once after an idle period. */
  burst?: number;
}

/** Conditions on the runs of a job. */
export interface ConstraintsBody {
  /** Most of its runs that may be live at once. By default, only scheduled occurrences exclude each other. */
  max_concurrent_runs?: number | null;
  /** Whether the previous run must have succeeded. */
  require_previous_success?: boolean;
  /** Longest delay after its due time at which a run may still start. */
  catch_up_window?: string | number | null;
  /** Request before a run. */
  pre_run_hook?: string | HookBody | null;
  /** Jobs that must approve a run before it starts. */
  checks?: string | CheckBody | (string | CheckBody)[];
  /** Constraints to check again before each retry. */
  recheck_on_retry?: string[];
  /** Run time after which a run counts as late. */
  max_expected_run_time?: string | number | null;
  /** Run time after which a run is asked to stop; the same as `max_runtime`. */
  max_allowed_run_time?: string | number | null;
  /** Request after a run has done its work. */
  post_run_hook?: string | HookBody | null;
}

/** An HTTP request that must be answered with a status from 200 to 299. */
export interface HookBody {
  /** URL to post to. */
  url?: string | null;
  /** Environment variable that holds the URL, if the URL is secret. */
  url_env?: string | boolean | null;
  /** Variable with the secret that signs the request. */
  secret_env?: string | boolean | null;
  /** Variable with a token for the header `Authorization`. */
  token_env?: string | boolean | null;
  /** Time for the answer. */
  timeout?: string | number;
  /** If the hook does not answer: `fail` the run, `skip` it, or `allow` it. For `post_run_hook`, `skip` acts like `allow`. */
  on_error?: "fail" | "skip" | "allow";
}

/** A constraint of your own: a job whose result decides. */
export interface CheckBody {
  /** Job that checks: it returns true, or the text of the violation. */
  job: string | number | boolean;
  /** Time for the answer. */
  timeout?: string | number;
  /** If the check fails or is late: `fail` the run, `skip` it, or `allow` it. */
  on_error?: "fail" | "skip" | "allow";
}

/** An action: a decision on a run, or a message to somebody. */
export interface ActionBody {
  /** `skip`, `retry_later`, `kill_old`, `wait`, `webhook`, `trigger_job` or `call`. */
  action: "skip" | "retry_later" | "kill_old" | "wait" | "webhook" | "trigger_job" | "call";
  /** For `retry_later`: time until constraints are checked again. */
  delay?: string | number;
  /** For `wait` and `retry_later`: longest time from the first violation. For `call`: longest time of its run. */
  limit?: string | number | null;
  /** For `webhook`: URL to post to. */
  url?: string | null;
  /** For `webhook`: variable with the URL, if that is a secret. */
  url_env?: string | boolean | null;
  /** For `webhook`: variable with the secret that signs the request. */
  secret_env?: string | boolean | null;
  /** For `webhook`: variable with a token for the header `Authorization`. */
  token_env?: string | boolean | null;
  /** For `webhook`: time for the answer to one try. */
  timeout?: string | number;
  /** For `webhook`: `cloudevents`, `slack` or `discord`. */
  format?: "cloudevents" | "slack" | "discord";
  /** For `webhook`: template of the body, JSON with `$job`, `$run` … */
  body?: string | null;
  /** For `webhook`: whether requests to this target keep their order. */
  ordered?: boolean;
  /** For `webhook`: time for all tries. */
  give_up_after?: string | number;
  /** For `trigger_job` and `call`: job to run. */
  job?: string | number | boolean | null;
  /** For `trigger_job`: arguments; by default the job's own. */
  payload?: Record<string, Json> | null;
  /** Decision to follow after this action; only in `on_constraint_violation`. */
  then?: string | DecisionBody | null;
  /** If the action fails or reaches its limit: `fail` the run, `skip` it, or `allow` it. */
  on_error?: "fail" | "skip" | "allow";
}

/** The decision on a run that violates a constraint. */
export interface DecisionBody {
  /** `skip`, `retry_later`, `kill_old` or `wait`. */
  action: "skip" | "retry_later" | "kill_old" | "wait" | "webhook" | "trigger_job" | "call";
  /** For `retry_later`: time until constraints are checked again. */
  delay?: string | number;
  /** For `wait` and `retry_later`: longest time from the first violation. For `call`: longest time of its run. */
  limit?: string | number | null;
  /** If the action fails or reaches its limit: `fail` the run, `skip` it, or `allow` it. */
  on_error?: "fail" | "skip" | "allow";
}

/** What a job does: exactly one of these. */
export interface JobRunBody {
  /** A program and its arguments. It reads the payload from its standard input, its exit code decides, and the log is what it prints. */
  process?: (string | number | boolean)[] | null;
  /** A text for `/bin/sh`, run in the same way. */
  shell?: string | number | boolean | null;
  /** A container: its image, or a mapping. Its exit code decides, and the log is what it prints. */
  container?: string | ContainerWorkBody | null;
  /** Function, as `module:name` or `path/file.py:name`. */
  function?: string | null;
  /** Job of the app, by its id: runs the function of that job. */
  job?: string | number | boolean | null;
}

/** A container of Docker or Podman on the worker's machine, made for each attempt. Its exit code decides, and the run's log is what it prints. */
export interface ContainerWorkBody {
  /** Name of the image. */
  image: string | number | boolean;
  /** Command, in place of the image's own. */
  command?: (string | number | boolean)[];
  /** Memory, as in `512MiB`, or bytes. */
  memory?: number | string | null;
  /** Number of processors. */
  cpus?: number | null;
  /** Most processes in it. */
  processes?: number | null;
  /** When to pull the image: `missing`, `always` or `never`. */
  pull?: "missing" | "always" | "never";
  /** `host path:path inside`; `:ro` after it makes it read-only. */
  mounts?: string[];
  /** User it runs as. */
  user?: string | number | boolean | null;
  /** Folder it runs in, inside. */
  workdir?: string | number | boolean | null;
  /** Network it joins. */
  network?: string | number | boolean | null;
}

/** Limits on a process and on each one that it starts; the worker's or supervisor's own by default. */
export interface LimitsBody {
  /** Address space, as in `512MiB`, or bytes. */
  memory?: number | string | null;
  /** Processor time, at least a second; then it is killed. */
  cpu?: string | number | null;
  /** Open files. */
  files?: number | null;
  /** Processes of the same user. */
  processes?: number | null;
}

export const STATES = ["prerun", "pending", "approval_required", "condition_pending", "condition_running", "action_pending", "action_running", "scheduled", "under_way", "dispatched", "starting", "running", "terminating", "retrying", "succeeded", "failed", "timeout", "cancelled", "denied", "skipped", "orphaned", "output_quarantined"] as const;
export const TERMINAL = ["succeeded", "failed", "timeout", "cancelled", "denied", "skipped", "orphaned", "output_quarantined"] as const;
export type Permission = "read" | "submit" | "cancel" | "operate" | "approve" | "read the audit";

/** The events of the stream, by name. */
export interface Events {
  hello: HelloEvent;
  run: RunEvent;
  log: LogEvent;
  chunk: ChunkEvent;
  progress: ProgressEvent;
  service: ServiceEvent;
  service_log: ServiceLogEvent;
  lane: LaneEvent;
  job: JobEvent;
  session: SessionEvent;
  violation: ViolationEvent;
  overview: Overview;
  gap: GapEvent;
}

/** Every operation: what it takes, and what it answers. */
export interface Operations {
  /** Show the overview. What needs a person, what waits and why, and live runs by state. It may be a second old. The event `overview` on the stream has the same. */
  overview: {
    path: Record<string, never>;
    query: {
      /** Only runs of this tenant. */
      tenant?: string;
    };
    body: undefined;
    answer: Overview;
  };
  /** List tallies. Sums over runs that have ended: by lane and minute, kept for 48 hours, or by tenant, job and hour, kept as long as runs (`keep_for`). The newest ends are counted after ten seconds. Lanes are of all tenants, so only callers who see every tenant get tallies by lane. */
  tallies: {
    path: Record<string, never>;
    query: {
      /** `lane`: by lane and minute; `job`: by tenant, job and hour. */
      by?: "job" | "lane";
      /** Only tallies of this lane. */
      lane?: string;
      /** Only tallies of this job. */
      job?: string;
      /** Only tallies of this tenant. */
      tenant?: string;
      /** Only tallies that begin then or later. */
      since?: string | number;
      /** Only tallies that begin before this time. */
      until?: string | number;
      /** Most items to return. */
      limit?: number;
      /** `next` of the page before; leave it out for the first page. */
      cursor?: string;
    };
    body: undefined;
    answer: TallyPage;
  };
  /** List failures. Runs that failed, timed out, were lost, denied or quarantined, grouped by job and by error without its numbers. At most the newest 5,000 are grouped; `reached` says how far back that was. */
  failures: {
    path: Record<string, never>;
    query: {
      /** Only runs of this job. */
      job?: string;
      /** Only runs of this tenant. */
      tenant?: string;
      /** Only runs created since then, in RFC 3339 or seconds since 1970; by default of 24 hours. */
      since?: string | number;
      /** Most groups to return. */
      limit?: number;
    };
    body: undefined;
    answer: FailureList;
  };
  /** Submit a run. The answer comes once the run is durable, with the run as it was created. With `wait`, it comes once the run has ended, if that is in time, and has every field of [RunDetail](#rundetail). */
  submit: {
    path: Record<string, never>;
    query: {
      /** Time to wait for the run to end, such as `30s`; up to 5 minutes. */
      wait?: string;
    };
    body: NewRunBody;
    answer: RunInfo;
  };
  /** Submit many runs. Up to 1,000, all or none. With an `Idempotency-Key` K, run i (from 0) gets the key `K/i`. */
  submit_many: {
    path: Record<string, never>;
    query: Record<string, never>;
    body: BatchBody;
    answer: SubmittedBatch;
  };
  /** List runs. Runs, newest first. A page may be short although more follow: go on while `next` is not null. One request looks at 50,000 runs at most, with `text` for about a second; `reached` says how far back that was. */
  runs: {
    path: Record<string, never>;
    query: {
      /** Only runs of this job. */
      job?: string;
      /** Only runs of this tenant. */
      tenant?: string;
      /** Only runs of this session. */
      session?: string;
      /** Only runs in this lane. */
      lane?: string;
      /** Only runs created since then, in RFC 3339 or seconds since 1970. */
      since?: string | number;
      /** Only runs created before this time, in the same form. */
      until?: string | number;
      /** Only runs that this run made. */
      parent?: string;
      /** Only runs whose root is this run: it made them, directly or not. */
      root?: string;
      /** Only runs with this text in id, job, session, reason, error or a label (`name=value`), whatever the case. */
      text?: string;
      /** Only runs in this state; may be repeated. */
      state?: State[];
      /** `true`: only runs that have not ended; `false`: only runs that have. */
      live?: boolean;
      /** Only runs whose id begins with this, the last 1,000 by id. */
      id_prefix?: string;
      /** Whether to list steps of workflows; with `parent`, `root` or the id of a step they always are. */
      steps?: boolean;
      /** Most items to return. */
      limit?: number;
      /** `next` of the page before; leave it out for the first page. */
      cursor?: string;
    };
    body: undefined;
    answer: RunPage;
  };
  /** Show a run. The run as it is now; with `wait`, once it has ended, if that is in time. */
  run: {
    path: {
      /** The id of the run. */
      run_id: string;
    };
    query: {
      /** Time to wait for the run to end, such as `30s`; up to 5 minutes. */
      wait?: string;
    };
    body: undefined;
    answer: RunDetail;
  };
  /** List the steps of a run. The steps of a workflow, or the items of a step with `for_each`, in the order in which they began; any other run has none. The facet `step` has the number of each. */
  steps: {
    path: {
      /** The id of the run. */
      run_id: string;
    };
    query: {
      /** Most items to return. */
      limit?: number;
      /** `next` of the page before; leave it out for the first page. */
      cursor?: string;
    };
    body: undefined;
    answer: StepPage;
  };
  /** Show the record of a run. What the function of a workflow is replayed from: its round, the steps that it asked for, and their ends in order of completion. Secrets are masked, and withheld results are left out. Only a run of a workflow that is a function has one. */
  record: {
    path: {
      /** The id of the run. */
      run_id: string;
    };
    query: Record<string, never>;
    body: undefined;
    answer: RunRecord;
  };
  /** Explain a run. Why it is where it is, what it waits for, and roughly until when; for a run that has ended, how and why it ended. A token of one tenant sees the ids of that tenant's runs only, and how many others there are. */
  explanation: {
    path: {
      /** The id of the run. */
      run_id: string;
    };
    query: Record<string, never>;
    body: undefined;
    answer: Explanation;
  };
  /** Show the history of a run. Every transition, in order. */
  history: {
    path: {
      /** The id of the run. */
      run_id: string;
    };
    query: Record<string, never>;
    body: undefined;
    answer: History;
  };
  /** Show the log of a run. Log lines of the run's attempts, oldest first. */
  logs: {
    path: {
      /** The id of the run. */
      run_id: string;
    };
    query: {
      /** Most lines to return. */
      limit?: number;
      /** `next` of the page before; leave it out for the first page. */
      cursor?: string;
    };
    body: undefined;
    answer: LogPage;
  };
  /** Send an event to a workflow. It is kept until a step reads it, once and in order. The answer is the run of the event. */
  send_event: {
    path: {
      /** The id of the run. */
      run_id: string;
    };
    query: Record<string, never>;
    body: EventBody;
    answer: ActedOn;
  };
  /** Cancel many runs. Act on the runs that match every field given and have not ended. The answer comes once the request is durable. The scheduler then carries it out a part at a time, and finishes it after a restart. Runs created later are not touched. `state` is compared when a run's turn comes. */
  cancel_many: {
    path: Record<string, never>;
    query: Record<string, never>;
    body: BulkBody;
    answer: BulkInfo;
  };
  /** Hold many runs. Act on the runs that match every field given and have not ended. The answer comes once the request is durable. The scheduler then carries it out a part at a time, and finishes it after a restart. Runs created later are not touched. `state` is compared when a run's turn comes. */
  hold_many: {
    path: Record<string, never>;
    query: Record<string, never>;
    body: BulkBody;
    answer: BulkInfo;
  };
  /** Release many runs. Act on the runs that match every field given and have not ended. The answer comes once the request is durable. The scheduler then carries it out a part at a time, and finishes it after a restart. Runs created later are not touched. `state` is compared when a run's turn comes. */
  release_many: {
    path: Record<string, never>;
    query: Record<string, never>;
    body: BulkBody;
    answer: BulkInfo;
  };
  /** Retry many runs. Act on the runs that match every field given and ended without success, unless retried before. The answer comes once the request is durable. The scheduler then carries it out a part at a time, and finishes it after a restart. Runs created later are not touched. `state` is compared when a run's turn comes. A job that does not exist is `unknown_job`. */
  retry_many: {
    path: Record<string, never>;
    query: Record<string, never>;
    body: BulkBody;
    answer: BulkInfo;
  };
  /** Show a bulk request. Filter and progress of a bulk request. The newest 1,000 are kept. */
  bulk: {
    path: {
      /** The id of the bulk request. */
      bulk_id: string;
    };
    query: Record<string, never>;
    body: undefined;
    answer: BulkInfo;
  };
  /** Cancel a run. A running run is asked to stop; an ended run keeps its state. May be repeated. */
  cancel: {
    path: {
      /** The id of the run. */
      run_id: string;
    };
    query: Record<string, never>;
    body: CancelBody | undefined;
    answer: ActedOn;
  };
  /** Hold a run. A held run does not start until it is released. A running run continues. May be repeated. */
  hold: {
    path: {
      /** The id of the run. */
      run_id: string;
    };
    query: Record<string, never>;
    body: ReasonBody | undefined;
    answer: ActedOn;
  };
  /** Release a run. A released run continues where it was held. May be repeated. */
  release: {
    path: {
      /** The id of the run. */
      run_id: string;
    };
    query: Record<string, never>;
    body: ReasonBody | undefined;
    answer: ActedOn;
  };
  /** Retry a run. An ended run runs again, as a new run with the same job, payload, tenant, lane, priority, session with its options, labels and time to its deadline. The facet `retry_of` of the new run names the old one; `retried_as` of the old one names it. The answer is the new run. */
  retry: {
    path: {
      /** The id of the run. */
      run_id: string;
    };
    query: Record<string, never>;
    body: RetryRunBody | undefined;
    answer: ActedOn;
  };
  /** Resume a halted workflow. Its function gets another turn, on any worker that has it. A run whose code still does not fit halts again. */
  resume_run: {
    path: {
      /** The id of the run. */
      run_id: string;
    };
    query: Record<string, never>;
    body: ReasonBody | undefined;
    answer: ActedOn;
  };
  /** Abandon a halted workflow. It ends as `cancelled` once its live steps have stopped. No step starts and nothing is undone: to undo its steps, cancel it with `compensate`. The audit has an entry. */
  abandon_run: {
    path: {
      /** The id of the run. */
      run_id: string;
    };
    query: Record<string, never>;
    body: ReasonBody | undefined;
    answer: ActedOn;
  };
  /** List jobs. Jobs in the order of their declaration, each with its newest run that has begun or ended. */
  jobs: {
    path: Record<string, never>;
    query: {
      /** Most items to return. */
      limit?: number;
      /** `next` of the page before; leave it out for the first page. */
      cursor?: string;
    };
    body: undefined;
    answer: JobPage;
  };
  /** Show a job. */
  job: {
    path: {
      /** The id of the job. */
      job_id: string;
    };
    query: Record<string, never>;
    body: undefined;
    answer: JobInfo;
  };
  /** Show the log of a job. Runs that have begun or ended, newest first, with up to 16 KiB of output. Deleted jobs keep theirs. */
  job_log: {
    path: {
      /** The id of the job. */
      job_id: string;
    };
    query: {
      /** Most runs to return. */
      limit?: number;
    };
    body: undefined;
    answer: JobLog;
  };
  /** Show when a job fires. The next fire times of the job, paused or not. */
  next_times: {
    path: {
      /** The id of the job. */
      job_id: string;
    };
    query: {
      /** Most times to return. */
      count?: number;
      /** Only times after this one, in RFC 3339 or seconds since 1970; by default after now. */
      after?: string | number;
    };
    body: undefined;
    answer: FireTimes;
  };
  /** Show when a schedule would fire. The first fire times of a schedule that no job has, as if it were declared now, or at `after`. */
  schedule_times: {
    path: Record<string, never>;
    query: {
      /** Most times to return. */
      count?: number;
      /** Only times after this one, in RFC 3339 or seconds since 1970; by default after now. */
      after?: string | number;
      /** Cron expression of five fields. */
      cron?: string;
      /** Time zone of `cron`; UTC by default. */
      tz?: string;
      /** Interval, such as `10m`, instead of `cron`. */
      every?: string;
      /** Time until the first run of `every`. */
      wait?: string;
      /** Time, such as `2030-01-31T02:00:00Z`, instead of `cron`. */
      at?: string;
    };
    body: undefined;
    answer: FireTimes;
  };
  /** Show the timetable. Jobs that fire from now on, and when. Jobs that fire first come first. */
  timetable: {
    path: Record<string, never>;
    query: {
      /** Time to look ahead, such as `24h`; 1 second to 31 days. */
      for?: string;
      /** Most jobs to return. */
      limit?: number;
    };
    body: undefined;
    answer: Timetable;
  };
  /** Run a job now. Create a run of the job besides its schedule, paused or not. The answer is that of a submit. */
  trigger: {
    path: {
      /** The id of the job. */
      job_id: string;
    };
    query: {
      /** Time to wait for the run to end, such as `30s`; up to 5 minutes. */
      wait?: string;
    };
    body: TriggerBody | undefined;
    answer: RunInfo;
  };
  /** Pause a job. Stop the schedule of the job until it is resumed. Active runs continue. May be repeated. */
  pause: {
    path: {
      /** The id of the job. */
      job_id: string;
    };
    query: Record<string, never>;
    body: undefined;
    answer: JobInfo;
  };
  /** Resume a job. Let a paused job fire again from its next time on; nothing is caught up. May be repeated. */
  resume: {
    path: {
      /** The id of the job. */
      job_id: string;
    };
    query: Record<string, never>;
    body: undefined;
    answer: JobInfo;
  };
  /** Backfill a range of time. Create the runs that the job's schedule has from `from` up to before `to`, at most `max_parallel` of them live at once. Occurrences that already have a run are left alone, so it may be repeated. */
  backfill: {
    path: {
      /** The id of the job. */
      job_id: string;
    };
    query: Record<string, never>;
    body: BackfillBody;
    answer: Backfilled;
  };
  /** Define a job. Create a job, or replace one that was put before. It stays until it is deleted, whatever files say. */
  put_job: {
    path: {
      /** The id of the job. */
      job_id: string;
    };
    query: Record<string, never>;
    body: JobBody;
    answer: JobInfo;
  };
  /** Define many jobs. Up to 10,000, all or none. */
  put_jobs: {
    path: Record<string, never>;
    query: Record<string, never>;
    body: JobsBody;
    answer: Defined;
  };
  /** Delete a job. Delete a job that was put. The answer is the job as it was. Its runs and their log are kept. */
  delete_job: {
    path: {
      /** The id of the job. */
      job_id: string;
    };
    query: Record<string, never>;
    body: undefined;
    answer: JobInfo;
  };
  /** Send an event by key. It goes to the live run of the workflow that has this idempotency key in the tenant; with `or_start`, to a new run if there is none. */
  send_workflow_event: {
    path: {
      /** The id of the job. */
      job_id: string;
    };
    query: Record<string, never>;
    body: WorkflowEventBody;
    answer: ActedOn;
  };
  /** List workflow runs. Workflow runs under way, newest first, and what each waits for. A workflow that is a step of another is listed if it is halted, or with `steps`. */
  workflows: {
    path: Record<string, never>;
    query: {
      /** Only runs of this workflow. */
      job?: string;
      /** Only runs of this tenant. */
      tenant?: string;
      /** Only runs with this status. */
      status?: WorkflowStatus;
      /** Whether to list workflows that are steps of others. */
      steps?: boolean;
      /** Most items to return. */
      limit?: number;
      /** `next` of the page before; leave it out for the first page. */
      cursor?: string;
    };
    body: undefined;
    answer: WorkflowPage;
  };
  /** List lanes. Lanes with their limits and the runs in them, which are of all tenants. */
  lanes: {
    path: Record<string, never>;
    query: Record<string, never>;
    body: undefined;
    answer: LaneList;
  };
  /** Create a lane. It outlasts restarts and reloads. A lane that exists is returned unchanged. */
  create_lane: {
    path: Record<string, never>;
    query: Record<string, never>;
    body: LaneBody;
    answer: LaneInfo;
  };
  /** Set values of a lane. They outlast restarts and reloads, whatever is declared. Setting a value back to the declared one removes the override. A lowered limit stops no run. */
  set_lane: {
    path: {
      /** The name of the lane. */
      lane: string;
    };
    query: Record<string, never>;
    body: LaneChangeBody;
    answer: LaneInfo;
  };
  /** Pause a lane. Start no runs in it until it is resumed. Active runs finish. It outlasts restarts and reloads. May be repeated. */
  pause_lane: {
    path: {
      /** The name of the lane. */
      lane: string;
    };
    query: Record<string, never>;
    body: undefined;
    answer: LaneInfo;
  };
  /** Resume a lane. Let a paused or draining lane start runs again. It outlasts restarts and reloads. May be repeated. */
  resume_lane: {
    path: {
      /** The name of the lane. */
      lane: string;
    };
    query: Record<string, never>;
    body: undefined;
    answer: LaneInfo;
  };
  /** Drain a lane. Start no runs in the lane, and refuse new ones with `draining`, until it is resumed. Active runs finish, and waiting runs stay. Occurrences of schedules wait too. It outlasts restarts and reloads. May be repeated. */
  drain_lane: {
    path: {
      /** The name of the lane. */
      lane: string;
    };
    query: Record<string, never>;
    body: undefined;
    answer: LaneInfo;
  };
  /** List tenants. Tenants that are declared, with their limits and runs; callers of one tenant see only their own. */
  tenants: {
    path: Record<string, never>;
    query: Record<string, never>;
    body: undefined;
    answer: TenantList;
  };
  /** List sessions. Sessions with runs that have not ended, by tenant and key. */
  sessions: {
    path: Record<string, never>;
    query: {
      /** Only sessions of this tenant. */
      tenant?: string;
      /** Most items to return. */
      limit?: number;
      /** `next` of the page before; leave it out for the first page. */
      cursor?: string;
    };
    body: undefined;
    answer: SessionPage;
  };
  /** Show a session. A session with any key, with or without runs. */
  session: {
    path: {
      /** The key of the session, up to 512 bytes of UTF-8; a slash in it is written `%2F`. */
      session: string;
    };
    query: {
      /** Tenant of the session; by default the token's own, or `default` without tokens. */
      tenant?: string;
    };
    body: undefined;
    answer: SessionInfo;
  };
  /** Stop a session. Cancel its oldest active run; `acted` is false without one. */
  stop_session: {
    path: {
      /** The key of the session, up to 512 bytes of UTF-8; a slash in it is written `%2F`. */
      session: string;
    };
    query: {
      /** Tenant of the session; by default the token's own, or `default` without tokens. */
      tenant?: string;
    };
    body: undefined;
    answer: ActedOnSession;
  };
  /** Stop all of a session. Cancel its active and waiting runs. Messages stamped before the stop that arrive after it are cancelled too (`message_stale`), until the first message stamped after the stop arrives. */
  stopall_session: {
    path: {
      /** The key of the session, up to 512 bytes of UTF-8; a slash in it is written `%2F`. */
      session: string;
    };
    query: {
      /** Tenant of the session; by default the token's own, or `default` without tokens. */
      tenant?: string;
    };
    body: undefined;
    answer: ActedOnSession;
  };
  /** Reset a session. Cancel its waiting runs as `lane_cleared`, and begin a new generation: active runs finish outside it. */
  reset_session: {
    path: {
      /** The key of the session, up to 512 bytes of UTF-8; a slash in it is written `%2F`. */
      session: string;
    };
    query: {
      /** Tenant of the session; by default the token's own, or `default` without tokens. */
      tenant?: string;
    };
    body: undefined;
    answer: ActedOnSession;
  };
  /** Pause a session. Waiting runs and new ones stay until it is resumed. Active runs finish. */
  pause_session: {
    path: {
      /** The key of the session, up to 512 bytes of UTF-8; a slash in it is written `%2F`. */
      session: string;
    };
    query: {
      /** Tenant of the session; by default the token's own, or `default` without tokens. */
      tenant?: string;
    };
    body: undefined;
    answer: ActedOnSession;
  };
  /** Resume a session. Let the runs of a paused session start again. */
  resume_session: {
    path: {
      /** The key of the session, up to 512 bytes of UTF-8; a slash in it is written `%2F`. */
      session: string;
    };
    query: {
      /** Tenant of the session; by default the token's own, or `default` without tokens. */
      tenant?: string;
    };
    body: undefined;
    answer: ActedOnSession;
  };
  /** List workers. Workers by pool and id, with their state and load; also those that are away, but have runs or were drained. */
  workers: {
    path: Record<string, never>;
    query: {
      /** Only workers of this pool. */
      pool?: string;
    };
    body: undefined;
    answer: WorkerList;
  };
  /** List pools. Pools that are declared or have workers, with their topics, workers and runs. */
  pools: {
    path: Record<string, never>;
    query: Record<string, never>;
    body: undefined;
    answer: PoolList;
  };
  /** Show a worker. */
  worker: {
    path: {
      /** The id of the worker. */
      worker_id: string;
    };
    query: Record<string, never>;
    body: undefined;
    answer: WorkerInfo;
  };
  /** Drain a worker. It gets nothing new until it is resumed, and finishes what it has. This outlasts broken links and restarts of the scheduler. */
  drain_worker: {
    path: {
      /** The id of the worker. */
      worker_id: string;
    };
    query: Record<string, never>;
    body: undefined;
    answer: WorkerInfo;
  };
  /** Resume a worker. A drained worker gets runs again. One that is leaving cannot be resumed (`wrong_status`). */
  resume_worker: {
    path: {
      /** The id of the worker. */
      worker_id: string;
    };
    query: Record<string, never>;
    body: undefined;
    answer: WorkerInfo;
  };
  /** Remove a worker. A connected worker finishes its runs and leaves: the answer has the state `draining`. One that is `away` is forgotten, and its runs are retried elsewhere. A worker of `interlock up` is started again; stop it as a service instead. */
  remove_worker: {
    path: {
      /** The id of the worker. */
      worker_id: string;
    };
    query: Record<string, never>;
    body: undefined;
    answer: WorkerInfo;
  };
  /** Deliver again. The receiver gets the same body under the same `webhook-id`. A delivery that is pending is tried at once. */
  redeliver: {
    path: {
      /** The id of the delivery. */
      delivery_id: string;
    };
    query: Record<string, never>;
    body: undefined;
    answer: DeliveryInfo;
  };
  /** List deliveries. Webhooks that are owed or were sent, newest first. A page may be short although more follow: go on while `next` is not null. */
  deliveries: {
    path: Record<string, never>;
    query: {
      /** Only deliveries of this run. */
      run?: string;
      /** Only deliveries of this job. */
      job?: string;
      /** Only deliveries of this tenant. */
      tenant?: string;
      /** Only deliveries in this state. */
      state?: DeliveryState;
      /** Only deliveries whose id begins with this. */
      id_prefix?: string;
      /** Most items to return. */
      limit?: number;
      /** `next` of the page before; leave it out for the first page. */
      cursor?: string;
    };
    body: undefined;
    answer: DeliveryPage;
  };
  /** Show a delivery. */
  delivery: {
    path: {
      /** The id of the delivery. */
      delivery_id: string;
    };
    query: Record<string, never>;
    body: undefined;
    answer: DeliveryInfo;
  };
  /** List dead letters. Runs that ended without success, except those that were cancelled or skipped, and messages of workers that cannot be read; newest first. */
  letters: {
    path: Record<string, never>;
    query: {
      /** Only letters with this reason code. */
      code?: LetterCode;
      /** Only letters of this job. */
      job?: string;
      /** Only letters of this tenant. */
      tenant?: string;
      /** Only letters since then, in RFC 3339 or seconds since 1970. */
      since?: string | number;
      /** Only letters before this time, in the same form. */
      until?: string | number;
      /** `true`: only letters that were replayed; `false`: only others. */
      replayed?: boolean;
      /** Most items to return. */
      limit?: number;
      /** `next` of the page before; leave it out for the first page. */
      cursor?: string;
    };
    body: undefined;
    answer: LetterPage;
  };
  /** Show a dead letter. The letter with its run, its history and its error. */
  letter: {
    path: {
      /** The id of the dead letter. */
      letter_id: string;
    };
    query: Record<string, never>;
    body: undefined;
    answer: LetterDetail;
  };
  /** Replay a dead letter. A new run with the same job, payload and tenant, or with other arguments; it passes the policy like any other. The letter stays, and names the new run. The answer is the new run. */
  replay: {
    path: {
      /** The id of the dead letter. */
      letter_id: string;
    };
    query: Record<string, never>;
    body: ReplayBody | undefined;
    answer: ActedOn;
  };
  /** Replay many dead letters. Those that match every field given and were not replayed. The answer comes once the request is durable: a bulk request that retries their runs, and is finished even after a restart. */
  replay_many: {
    path: Record<string, never>;
    query: Record<string, never>;
    body: LettersBody;
    answer: BulkInfo;
  };
  /** Drop a dead letter. Its run is kept like any other. */
  drop_letter: {
    path: {
      /** The id of the dead letter. */
      letter_id: string;
    };
    query: Record<string, never>;
    body: undefined;
    answer: Dropped;
  };
  /** Drop many dead letters. Those that match every field given, up to 1,000 in one request: repeat it while `more` is true. Their runs are kept like any other. */
  drop_letters: {
    path: Record<string, never>;
    query: Record<string, never>;
    body: LettersBody;
    answer: Dropped;
  };
  /** List approvals. Runs that wait for an approval, newest first. A page may be short although more follow: go on while `next` is not null. */
  approvals: {
    path: Record<string, never>;
    query: {
      /** Only runs of this job. */
      job?: string;
      /** Only runs of this tenant. */
      tenant?: string;
      /** Most items to return. */
      limit?: number;
      /** `next` of the page before; leave it out for the first page. */
      cursor?: string;
    };
    body: undefined;
    answer: ApprovalPage;
  };
  /** Show an approval. What would run, why an approval is needed, and what else the submitter did in the last 24 hours. An approval that was answered is shown with its answer. */
  approval: {
    path: {
      /** The id of the run. */
      run_id: string;
    };
    query: Record<string, never>;
    body: undefined;
    answer: ApprovalDetail;
  };
  /** Approve a run, so that it may start. The submitter of the run cannot approve it. */
  approve: {
    path: {
      /** The id of the run. */
      run_id: string;
    };
    query: Record<string, never>;
    body: ResolveBody;
    answer: ActedOn;
  };
  /** Reject a run. End a run that waits for an approval as `denied`. */
  reject: {
    path: {
      /** The id of the run. */
      run_id: string;
    };
    query: Record<string, never>;
    body: ResolveBody;
    answer: ActedOn;
  };
  /** Release a quarantined result. The run keeps its state, and its original result is handed out from then on. Nothing runs again. */
  release_output: {
    path: {
      /** The id of the run. */
      run_id: string;
    };
    query: Record<string, never>;
    body: ReleaseBody;
    answer: ActedOn;
  };
  /** Show the policy. The rules in force with their verdicts since the scheduler started, and the digest. */
  policy: {
    path: Record<string, never>;
    query: Record<string, never>;
    body: undefined;
    answer: PolicyInfo;
  };
  /** List the audit. Entries, oldest first; with `last`, the newest ones that match. A page may be short although more follow: go on while `next` is not null. A token of one tenant sees the entries of that tenant alone. To verify the chain, read all entries, and compare the last with `head`. */
  audit: {
    path: Record<string, never>;
    query: {
      /** Only entries of this kind. */
      kind?: AuditKind;
      /** Only entries of this actor. */
      actor?: string;
      /** Only entries of this tenant. */
      tenant?: string;
      /** Only entries about this run, job or path. */
      subject?: string;
      /** Only entries since then, in RFC 3339 or seconds since 1970. */
      since?: string | number;
      /** `true`: the newest entries, of the last 50,000, instead of the oldest. */
      last?: boolean;
      /** Most items to return. */
      limit?: number;
      /** `next` of the page before; leave it out for the first page. */
      cursor?: string;
    };
    body: undefined;
    answer: AuditPage;
  };
  /** Show the supervision tree. The supervisors and their children, from the top. */
  tree: {
    path: Record<string, never>;
    query: Record<string, never>;
    body: undefined;
    answer: ChildInfo;
  };
  /** Start a service. Start a service that is down or waits to be restarted. The answer comes when that is done, and shows the service as it is then. */
  start_service: {
    path: {
      /** The name of the service or group. */
      name: string;
    };
    query: Record<string, never>;
    body: undefined;
    answer: ChildInfo;
  };
  /** Stop a service. It stays down until it is started again. The answer comes when that is done, and shows the service as it is then. */
  stop_service: {
    path: {
      /** The name of the service or group. */
      name: string;
    };
    query: Record<string, never>;
    body: undefined;
    answer: ChildInfo;
  };
  /** Restart a service. Stop a service if it is up, and start it. The answer comes when that is done, and shows the service as it is then. */
  restart_service: {
    path: {
      /** The name of the service or group. */
      name: string;
    };
    query: Record<string, never>;
    body: undefined;
    answer: ChildInfo;
  };
  /** Suspend a service. Freeze the processes of a service. The answer comes when that is done, and shows the service as it is then. */
  suspend_service: {
    path: {
      /** The name of the service or group. */
      name: string;
    };
    query: Record<string, never>;
    body: undefined;
    answer: ChildInfo;
  };
  /** Resume a service. Let a suspended service continue. The answer comes when that is done, and shows the service as it is then. */
  resume_service: {
    path: {
      /** The name of the service or group. */
      name: string;
    };
    query: Record<string, never>;
    body: undefined;
    answer: ChildInfo;
  };
  /** Reload the files. Bring jobs and services in line with the files that declare them; what is the same there is left alone. With any fault in the files nothing is changed, and the problem lists all faults. */
  reload: {
    path: Record<string, never>;
    query: Record<string, never>;
    body: undefined;
    answer: Reloaded;
  };
  /** List services. Services and groups, in the order in which they start, without their members. */
  services: {
    path: Record<string, never>;
    query: Record<string, never>;
    body: undefined;
    answer: ServiceList;
  };
  /** Show a service. A service, or a group with its members. */
  service: {
    path: {
      /** The name of the service or group. */
      name: string;
    };
    query: Record<string, never>;
    body: undefined;
    answer: ChildInfo;
  };
  /** Show the log of a service. Lines that the service printed, and changes of its status, oldest first. Go on with `next`: at the end of the log a page is empty, or with `wait` the answer comes with the next line. */
  service_logs: {
    path: {
      /** The name of the service or group. */
      name: string;
    };
    query: {
      /** Most lines to return. */
      limit?: number;
      /** `next` of the answer before; newer lines follow. */
      cursor?: string;
      /** `true`: the newest lines instead of the oldest. */
      last?: boolean;
      /** Time to wait for the next line, such as `30s`; at most 5 minutes. */
      wait?: string;
    };
    body: undefined;
    answer: ServiceLogPage;
  };
  /** Show the cluster. The node that leads, and every node that it hears of. */
  cluster: {
    path: Record<string, never>;
    query: Record<string, never>;
    body: undefined;
    answer: ClusterInfo;
  };
  /** Hand the lead over. The scheduler that leads releases its lease, and one that stands by leads next; attempts continue. Answered before it happens. */
  hand_over: {
    path: Record<string, never>;
    query: {
      /** Node that is to lead; by default, whichever is first. */
      node?: string;
    };
    body: undefined;
    answer: ClusterInfo;
  };
  /** Stream events. Server-sent events: transitions, log lines and progress of runs; changes and output of services; changes of lanes and jobs; acts on sessions. The `id` of an event is a cursor. A stream opened with `Last-Event-ID` or `after` first sends every event stored after that one. A `gap` event names a range that was left out, and where to resume for it. A reader that does not keep up is cut off and may resume. Services and lanes belong to no tenant: only callers who see every tenant get their events, and only without `run`, `job` and `tenant`. Only a stream that names the type `overview` has it, when it has changed and at most once a second. */
  events: {
    path: Record<string, never>;
    query: {
      /** Only events of this run. */
      run?: string;
      /** Only events of this job. */
      job?: string;
      /** Only events of this tenant. */
      tenant?: string;
      /** Only events of this service. */
      service?: string;
      /** Only events of this type; may be repeated. */
      type?: ("chunk" | "job" | "lane" | "log" | "overview" | "progress" | "run" | "service" | "service_log" | "session" | "violation")[];
      /** Send first every stored event after this id; `start` sends all. The header `Last-Event-ID` overrides it. */
      after?: string;
    };
    body: undefined;
    answer: string;
  };
  /** Show who you are. Your name, role and tenant, and what you may do. */
  me: {
    path: Record<string, never>;
    query: Record<string, never>;
    body: undefined;
    answer: Me;
  };
  /** Sign in. Begin a session of 12 hours for a browser: a cookie that no script can read, and a secret that the page keeps. A request needs both. The session survives restarts, and ends with its token. Programs do not sign in; they send their token with every request. Without tokens in the settings, nobody signs in. */
  sign_in: {
    path: Record<string, never>;
    query: Record<string, never>;
    body: SignInBody;
    answer: SignedIn;
  };
  /** Show whether the server is alive. */
  healthz: {
    path: Record<string, never>;
    query: Record<string, never>;
    body: undefined;
    answer: Health;
  };
  /** Show whether the server can work. The store can be read, and the scheduler makes progress: its loop turns, its writes are stored, and workers take runs. The status is 503 if a check fails. Without a token, where tokens are needed, the checks have no details. */
  readyz: {
    path: Record<string, never>;
    query: Record<string, never>;
    body: undefined;
    answer: Readiness;
  };
  /** Show metrics for Prometheus. Figures of the whole scheduler, so only for callers who see every tenant. */
  metrics: {
    path: Record<string, never>;
    query: Record<string, never>;
    body: undefined;
    answer: string;
  };
  /** Show this description. */
  openapi: {
    path: Record<string, never>;
    query: Record<string, never>;
    body: undefined;
    answer: Json;
  };
}
