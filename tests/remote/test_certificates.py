"""A worker shows its token only to the scheduler that it was told of."""

import pytest

from interlock.buses.tls import TlsBus, client_context
from interlock.error import InterlockError, NotRunning, TokenRefused, WrongCertificate
from tests.remote.certificates import certificates
from tests.remote.stage import GRANTS, HERE, TOKEN
from tests.remote.test_strangers import Recorder, on_loop

run_test = on_loop

REFUSED = {
    # The certificate of the scheduler, what the worker verifies it with, and why it refuses.
    "of another CA": ("right", "ca", "other", "self-signed certificate"),
    "not the pinned one": ("right", "pin", "other", "its fingerprint is sha256:"),
    "another with the same key": ("expired", "pin", "right", "its fingerprint is sha256:"),
    "expired": ("expired", "ca", "expired", "certificate has expired"),
    "for another host": ("of another host", "ca", "of another host", "IP address mismatch"),
    "not of a CA of the system": ("right", "system", "right", "self-signed certificate"),
}
ACCEPTED = {
    "its own CA": ("right", "ca", "right"),
    "pinned": ("right", "pin", "right"),
    "pinned, for another host": ("of another host", "pin", "of another host"),
    "pinned and expired": ("expired", "pin", "expired"),
}


def bus_that_verifies(address: tuple[str, int], by: str, name: str, token: str = TOKEN) -> TlsBus:
    known = certificates()[name]
    context = client_context(str(known.path) if by == "ca" else None, pinned=by == "pin")
    return TlsBus(address, context, token=token, fingerprint=known.fingerprint if by == "pin" else "")


async def connected(server: str, by: str, name: str, token: str = TOKEN) -> tuple[InterlockError | None, Recorder]:
    """The error of a worker that connects, and what the scheduler has seen."""
    listener, recorder = TlsBus(HERE, certificates()[server].context(), grants=GRANTS), Recorder()
    await listener.listen(recorder)
    worker = bus_that_verifies(listener.address, by, name, token)
    try:
        await worker.connect(Recorder())
    except InterlockError as error:
        return error, recorder
    finally:
        await worker.close()
        await listener.close()
    return None, recorder


@pytest.mark.parametrize("case", REFUSED)
@pytest.mark.parametrize("loop", ["uvloop", "asyncio"])
def test_a_wrong_certificate_gets_no_token(case: str, loop: str) -> None:
    *how, why = REFUSED[case]

    async def body() -> None:
        error, recorder = await connected(*how)
        assert isinstance(error, WrongCertificate)
        assert why in str(error)
        assert recorder.opened_by == []

    on_loop(body, loop)


@pytest.mark.parametrize("case", ACCEPTED)
async def test_a_right_certificate(case: str) -> None:
    error, recorder = await connected(*ACCEPTED[case])
    assert (error, len(recorder.opened_by)) == (None, 1)


async def test_a_wrong_token_is_named() -> None:
    error, _ = await connected("right", "ca", "right", "wrong-0123456789abcdef")
    assert isinstance(error, TokenRefused)
    assert "this worker_token or gateway_token" in str(error)
    assert "0123456789abcdef" not in str(error)


async def test_a_worker_that_was_accepted_once_keeps_trying(caplog: pytest.LogCaptureFixture) -> None:
    """The scheduler may have been started with a wrong certificate, or without the token, by mistake."""
    listener = TlsBus(HERE, certificates()["right"].context(), grants=GRANTS)
    await listener.listen(Recorder())
    worker = bus_that_verifies(listener.address, "ca", "right")
    (await worker.connect(Recorder())).close()
    await listener.close()
    for server, grants, why in (("other", GRANTS, "cannot be verified"), ("right", [], "closed the connection")):
        listener = TlsBus(listener.address, certificates()[server].context(), grants=grants)
        await listener.listen(Recorder())
        with pytest.raises(NotRunning):
            await worker.connect(Recorder())
        assert any(why in record.getMessage() for record in caplog.records)
        await listener.close()
    with pytest.raises(NotRunning, match="interlock up --listen-workers"):
        await worker.connect(Recorder())
