"""The policy and its approvals.

                  ┌─ 5 s, or a backoff: throttled, or the policy service gave no answer
                  ▼
    submit ─► pending ─► the stage `judge` ─► the next stage ─► scheduled ─► dispatched
               ▲  ▲              │                                  │
               │  └──────────────┼──── the policy has changed ──────┘
               │ approved,       ├─► denied
               │ or changed      └─► approval_required ─► denied      rejected, or not answered within 24 h
               └─────────────────────────┘

- With the policy in this process, the verdict is part of the step. A service is asked by the effect `CheckPolicy`. A
  payload above 256 bytes is read by the effect `ReadPayload`. Without a policy the stage is one comparison.
- The facet `policy` (`Judged`) has the decision, rule, reason, digest, limits and approval. A plain `allow` is a short
  text in `Run.allowed_by`, with digest and rule, and no facet: most runs stay plain under a policy. Later stages obey
  the limits: `core/attempts/settle.py` run time and retries, `core/output.py` the size, `core/lanes/gates.py` how many
  run at once, `worker/program_attempt.py` the environment. The dispatch carries them to `ctx.limits`.
- Judged again. A memo has the digest of the policy that judged the waiting runs. When another is declared, or the
  service shows another, the same step moves waiting runs back to `pending`. A scheduled run stays if the new policy
  certainly still allows it plainly. Runs whose constraints are being checked, and runs that a worker has, are noted
  (`unjudged`), and judged once they pass or come back.
- Approvals. The facet has the hash of the request and of the policy. An answer (`Resolve`) moves the run to `pending`,
  and the stage judges it again: the approval counts only if both hashes still match. So a race with a cancel, the end
  of the time, a new policy or another answer has one outcome. A run that waits lets others of its session pass.
- Everything but a complete, known answer of the service within 2 s is a reason to wait (`judge.py: _unanswered`); the
  fail mode `open` is decided in the same place. A scheduler that stops takes no answer for an allow.
- Each verdict but a plain allow, each answer, and each withheld or released result is an entry of the audit, in the
  same batch.
"""
