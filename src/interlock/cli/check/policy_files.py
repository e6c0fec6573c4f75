"""The policy in files, for the commands that try it."""

import sys
from collections.abc import Sequence
from contextlib import redirect_stdout

from interlock.cli.shared.options import Flags
from interlock.cli.shared.output import WrongUsage
from interlock.config.sources import NO_APP, Loaded, load, of_app
from interlock.error import BadConfig
from interlock.error_lines import say
from interlock.fields.safe_text import safe
from interlock.model.job import Job
from interlock.policy.policy import Policy


def policy_of(flags: Flags, paths: Sequence[str] | None) -> tuple[Policy, dict[str, Job]]:
    """Return the policy of the files, and the jobs that they and the app declare."""
    settings = flags.given(files=paths or None).resolve().settings
    if not settings.files:
        raise WrongUsage("PATH: missing; give the file with the policy")
    with redirect_stdout(sys.stderr):  # the app's own output
        app = NO_APP if settings.app is None else of_app(settings.app)
    loaded = load(settings.files, app, settings.strict)
    for warning in loaded.warnings:
        say(f"warning: {safe(warning)}")
    policy = required(loaded, settings.files)
    jobs = [*(definition.job for definition in app.definitions.values()), *(job.job for job in loaded.jobs)]
    return policy, {job.id: job for job in jobs}


def required(loaded: Loaded, files: Sequence[str]) -> Policy:
    if loaded.policy is None:
        raise BadConfig(f"{', '.join(files)}: no document has 'kind: Policy'")
    return loaded.policy
