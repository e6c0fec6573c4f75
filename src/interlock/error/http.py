"""Errors of HTTP, links and sockets."""

from interlock.error.base import (
    BadDefinition,
    BadInput,
    Conflict,
    ExitCode,
    InterlockError,
    NotAllowed,
    TooLarge,
    Unavailable,
    shown,
)


class BadJson(BadInput, code="bad_json"):
    """The body is not JSON."""

    def __init__(self, where: str, why: str) -> None:
        super().__init__(f"{where}: not valid JSON ({why})")


class BadCursor(BadInput, code="bad_cursor"):
    """This list did not issue the cursor."""

    def __init__(self, value: object) -> None:
        super().__init__(f"cursor: {shown(value)} was not issued by this list; start again without a cursor")


class BadRequest(BadInput, code="bad_request"):
    """The request is not valid HTTP."""


class Unauthorized(NotAllowed, code="unauthorized", status=401):
    """The token is missing or unknown; without tokens, the connection belongs to another user."""

    def __init__(
        self, text: str = "token: missing or unknown; send 'Authorization: Bearer …', or set INTERLOCK_TOKEN"
    ) -> None:
        super().__init__(text)


class Forbidden(NotAllowed, code="forbidden"):
    """The token's role or tenant does not allow this."""


class NobodySignsIn(Conflict, code="nobody_signs_in"):
    """Without tokens in the settings, nobody signs in: the server serves its own user and root."""

    def __init__(self) -> None:
        super().__init__("token: this server has no tokens, so nobody signs in; leave it out")


class WrongOrigin(NotAllowed, code="wrong_origin"):
    """The request comes from a web page of another origin, or names a host that is not the server's."""


class NotFound(InterlockError, code="not_found", status=404):
    """The path does not exist."""


class MethodNotAllowed(InterlockError, code="method_not_allowed", status=405):
    """The path does not support this method; `Allow` lists those it does."""


class RequestTimeout(InterlockError, code="request_timeout", status=408):
    """The request did not arrive in time (setting `request_timeout`)."""


class BodyTooLarge(TooLarge, code="body_too_large"):
    """The body is larger than the setting `max_body`."""

    def __init__(self, limit: int) -> None:
        super().__init__(f"body: larger than {limit:,} bytes; send less, or raise max_body")


class UnsupportedMediaType(InterlockError, code="unsupported_media_type", status=415):
    """The body is not declared as `application/json`."""


class HeadTooLarge(InterlockError, code="head_too_large", status=431):
    """Path and headers are larger than 64 KiB."""


class Draining(Unavailable, code="draining"):
    """The server is stopping, or the lane is draining, and takes no new work. Nothing was changed."""

    def __init__(self, lane: str | None = None) -> None:
        super().__init__(
            "scheduler: stopping, and takes no new work; submit again once it is back"
            if lane is None
            else f"lane: {lane!r} is draining, and takes no new runs; use another lane, or resume it"
        )
        self.retry_after = 1.0 if lane is None else None


class NotRunning(Unavailable, code="not_running", exit_code=ExitCode.NO_SERVER):
    """The scheduler is not running. Nothing was changed."""

    def __init__(self, path: str, remedy: str = "start one with: interlock up -A module:app", why: str = "") -> None:
        self.place = f"{path} ({why})" if why else path
        self.remedy = remedy
        super().__init__(f"no scheduler answers at {self.place}; {remedy}")


class NobodyLeads(Unavailable, code="nobody_leads", exit_code=ExitCode.NO_SERVER):
    """No scheduler leads for the moment. Repeat the request; a submit with the same `Idempotency-Key`."""

    def __init__(self, why: str) -> None:
        super().__init__(f"nobody leads: {why}")


class ConnectionLost(Unavailable, code="connection_lost", exit_code=ExitCode.NO_SERVER):
    """The scheduler went away before it answered; the change may or may not have happened. Repeat a submit with the
    same `Idempotency-Key`."""

    def __init__(self, what: str) -> None:
        super().__init__(f"connection lost before {what} was answered; with an idempotency_key it is safe to repeat")


class Overloaded(Unavailable, code="overloaded"):
    """The server has `max_connections` connections, or 32 bulk requests are under way."""


class Refused(InterlockError, code="refused"):
    """The peer refuses the link."""


class SocketInUse(InterlockError, code="socket_in_use"):
    """Another program uses the socket."""

    def __init__(self, path: str, why: str) -> None:
        super().__init__(f"socket: {path} is taken ({why}); choose another with --socket")


class CannotListen(InterlockError, code="cannot_listen"):
    """The socket cannot be opened."""

    def __init__(self, path: str, why: str) -> None:
        super().__init__(f"socket: cannot listen on {path} ({why})")


class TokensNeeded(BadDefinition, code="tokens_needed"):
    """The server would listen to other machines without tokens."""

    def __init__(self, address: str) -> None:
        super().__init__(
            f"http: {address!r} can be reached from other machines; configure tokens first "
            "('tokens' in interlock.yaml), or listen on 127.0.0.1"
        )


class PortTaken(InterlockError, code="port_taken"):
    """Another program listens on the port."""

    def __init__(self, address: str, setting: str = "http") -> None:
        flag = "--" + setting.replace("_", "-")
        off = ", or turn HTTP off with --http off" if setting == "http" else ""
        super().__init__(f"{setting}: {address} is taken by another program; choose another with {flag}{off}")


class WrongCertificate(InterlockError, code="wrong_certificate", exit_code=ExitCode.NOT_ALLOWED):
    """The scheduler's certificate cannot be verified. No token was sent."""

    def __init__(self, address: str, why: str) -> None:
        super().__init__(
            f"connect: the certificate of {address} cannot be verified ({why}); give its CA with --ca, "
            "or its fingerprint with --fingerprint"
        )


class TokenRefused(InterlockError, code="token_refused", exit_code=ExitCode.NOT_ALLOWED):
    """The scheduler does not know the token of a worker or a gateway."""

    def __init__(self, address: str) -> None:
        super().__init__(
            f"token: {address} closed the connection; its interlock.yaml may not have this worker_token or "
            "gateway_token, or not with that role"
        )


class NeedsLinux(InterlockError, code="needs_linux"):
    """Schedulers and workers run on Linux only."""

    def __init__(self, platform: str) -> None:
        super().__init__(
            f"platform: {platform!r} cannot run schedulers and workers, which need Linux; "
            "connect to a server elsewhere with interlock.Client or INTERLOCK_URL"
        )
