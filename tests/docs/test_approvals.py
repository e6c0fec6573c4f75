"""What the document on approvals shows holds."""

import shlex
from pathlib import Path

import pytest

from tests.docs.blocks import of_language
from tests.helpers.server import Server, interlock

DOCUMENT = "docs/approvals.md"
TOKENS = {"ANN_TOKEN": "ann-0123456789abcdef", "SHOP_TOKEN": "shop-0123456789abcdef"}


@pytest.mark.behaviour("POL-8")
def test_the_document_on_approvals(folder: Path) -> None:
    policy, settings = of_language(DOCUMENT, "yaml")
    (folder / "policy.yaml").write_text(policy.text)
    (folder / "interlock.yaml").write_text(settings.text.replace("app: jobs:app\n", ""))
    server = Server(folder, str(folder / "policy.yaml"), "--http", "127.0.0.1:0", target=None)
    server.extra = TOKENS
    with server:
        shop = server.http.with_token(TOKENS["SHOP_TOKEN"])
        payload = {"card_token": "secret", "invoice": 17}
        given = {name: shop.submit("billing.refund", payload) for name in ("RUN", "OTHER")}
        (commands,) = of_language(DOCUMENT, "sh")
        for line in commands.text.splitlines()[1:]:
            words = [given.get(word, word) for word in shlex.split(line)[1:]]
            ended = interlock(folder, *words, INTERLOCK_URL=server.url, INTERLOCK_TOKEN=TOKENS["ANN_TOKEN"])
            assert ended.returncode == 0, ended
            if "approve" in words:
                said = ended.stderr
        (shown,) = of_language(DOCUMENT, "console")
        names = [line[:14].rstrip() for line in shown.text.splitlines() if line[14:15].strip() and line[12:14] == "  "]
        assert [line[:14].rstrip() for line in said.splitlines()] == names
        assert (shop.ended(given["RUN"])["state"], shop.ended(given["OTHER"])["state"]) == ("succeeded", "denied")
