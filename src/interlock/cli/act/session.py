"""`interlock session`, and the short forms `interlock stop`, `stopall` and `reset`."""

from collections.abc import Callable
from typing import Annotated

from interlock.cli.draw.tables import present
from interlock.cli.look.sessions import SESSIONS, key_text
from interlock.cli.shared import completion
from interlock.cli.shared.options import FINDING, Flags, JsonOption, argument, option, takes
from interlock.cli.shared.output import check_choice
from interlock.cli.shared.server import client_of
from interlock.model.session import SessionAction
from interlock.wire.session_request import ActOnSession

KeyArgument = Annotated[str, argument("SESSION", "Key of the session.", completion.sessions)]
TenantOption = Annotated[str | None, option("TEXT", "Tenant of the session; by default your own.")]

PIPED = "Piped: `true` or `false`, whether there was anything to act on, then a line like that of `interlock sessions`."
SENTENCES = {
    SessionAction.STOP: ("cancels its oldest active run", "has no active run to stop"),
    SessionAction.STOP_ALL: ("cancels its runs; earlier messages are stale", "has no runs; earlier messages are stale"),
    SessionAction.RESET: ("begins a new generation", ""),
    SessionAction.PAUSE: ("is paused", "was paused already"),
    SessionAction.RESUME: ("goes on", "was not paused"),
}
"""for each action, if there was anything to act on, and if not"""


def command_of(name: str) -> Callable[..., None]:
    action = SessionAction(name)

    def command(flags: Flags, key: KeyArgument, tenant: TenantOption = None, json: JsonOption = False) -> None:
        _act(flags, action, key, tenant, json)

    command.__doc__ = f"{ActOnSession.http.actions[action]}\n\n{PIPED}"
    return takes(*FINDING)(command)


@takes(*FINDING)
def command(
    flags: Flags,
    action: Annotated[
        str,
        argument("ACTION", "One of stop, stopall, reset, pause and resume.", completion.of(*SessionAction)),
    ],
    key: KeyArgument,
    tenant: TenantOption = None,
    json: JsonOption = False,
) -> None:
    """Stop, reset, pause or resume a session.

    The runs of a paused session wait until `resume`; active runs finish. Restarts keep all of it. `interlock stop`,
    `stopall` and `reset` are short forms.

    Piped: `true` or `false`, whether there was anything to act on, then a line like that of `interlock sessions`."""
    check_choice("action", action, SessionAction)
    _act(flags, SessionAction(action), key, tenant, json)


def _act(flags: Flags, action: SessionAction, key: str, tenant: str | None, json: bool) -> None:
    with client_of(flags) as client:
        acted = client.act_on_session(key, action, tenant)
    present(
        json,
        lambda: acted,
        lambda: [f"{str(acted.acted).lower()}\t{SESSIONS.line(acted.session)}"],
        lambda: f"{key_text(acted.session.key)} {SENTENCES[action][not acted.acted]}",
    )
