"""Hooks: HTTP requests before and after a run, made by the sender."""

from interlock.core.effects import ask
from interlock.core.transition import Pass
from interlock.model.delivery import delivery_id, notice_of, outgoing
from interlock.model.guard import POST_HOOK, PRE_HOOK, Hook
from interlock.model.run import Run
from interlock.wire.effect import CallHook

GOOD = range(200, 300)


def call_hook(p: Pass, run: Run, name: str) -> None:
    """Ask for the answer of a hook. Asked again, after a restart too, the request has the same id."""
    hook = hook_of(p, run, name)
    id, kind = delivery_id(run, name), "check" if name == PRE_HOOK else "done"
    ask(p, CallHook(run.id, run.seq, id, outgoing(hook, notice_of(run, kind), id, run.changed_at)))


def hook_of(p: Pass, run: Run, name: str) -> Hook:
    constraints = p.state.job_of(run).constraints
    hook = constraints.pre_run_hook if name == PRE_HOOK else constraints.post_run_hook
    assert isinstance(hook, Hook)
    return hook


def call_after(p: Pass, run: Run) -> bool:
    """Call the hook after the work of a run, if it has one."""
    has_hook = p.state.versions[run.job_version].constraints.post_run_hook is not None
    if has_hook:
        call_hook(p, run, POST_HOOK)
    return has_hook
