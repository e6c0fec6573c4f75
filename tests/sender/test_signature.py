"""Headers as Standard Webhooks describes them; the first vector is that of its reference libraries."""

import hmac
from base64 import b64encode

import pytest

from interlock.sender.http_transport import signed_headers

ID, TIME, BODY = "msg_p5jXN8AQM9LWM0D4loKWxJek", 1614265330, b'{"test": 2432232314}'


@pytest.mark.behaviour("CON-7")
@pytest.mark.parametrize(
    ("secret", "signature"),
    [
        ("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="),
        ("plain", f"v1,{b64encode(hmac.digest(b'plain', b'%s.%d.' % (ID.encode(), TIME) + BODY, 'sha256')).decode()}"),
    ],
)
def test_the_signature_covers_id_time_and_body(secret: str, signature: str) -> None:
    headers = signed_headers(ID, TIME + 0.9, BODY, secret)
    assert headers == {"webhook-id": ID, "webhook-timestamp": str(TIME), "webhook-signature": signature}


def test_padding_may_be_missing() -> None:
    assert signed_headers(ID, TIME, BODY, "whsec_YQ") == signed_headers(ID, TIME, BODY, "whsec_YQ==")
    assert signed_headers(ID, TIME, BODY, "whsec_YQ") == signed_headers(ID, TIME, BODY, "a")


def test_without_a_secret_there_is_no_signature() -> None:
    assert set(signed_headers(ID, TIME, BODY, None)) == {"webhook-id", "webhook-timestamp"}


def test_a_secret_that_is_not_base64_is_an_error() -> None:
    with pytest.raises(ValueError, match="base64"):
        signed_headers(ID, TIME, BODY, "whsec_!!!!")
