"""JSON above 4 KiB is compressed for clients that accept it, and for no others."""

import gzip
import json
from types import SimpleNamespace
from typing import Any

import pytest

from tests.helpers.http import Http

LARGE = "/openapi.json"


@pytest.mark.parametrize("accepted", ["gzip", "gzip, br", "br;q=1.0, GZIP;q=0.5", "*", "gzip;q=1.0"])
def test_a_large_answer_is_compressed(http: Http, accepted: str) -> None:
    plain, found = http.get(LARGE), http.get(LARGE, {"Accept-Encoding": accepted})
    assert found.headers["content-encoding"] == "gzip"
    assert (found.headers["vary"], plain.headers["vary"]) == ("accept-encoding", "accept-encoding")
    assert int(found.headers["content-length"]) == len(found.body) < len(plain.body) / 4
    assert gzip.decompress(found.body) == plain.body
    assert len(plain.body) > 256 * 1024


@pytest.mark.parametrize("accepted", ["", "identity", "br", "gzip;q=0", "gzip;q=0.0", "gzipped"])
def test_nobody_gets_what_they_do_not_accept(http: Http, accepted: str) -> None:
    found = http.get(LARGE, {"Accept-Encoding": accepted})
    assert "content-encoding" not in found.headers
    assert json.loads(found.body)["openapi"] == "3.1.0"


def test_small_answers_and_streams_stay_as_they_are(http: Http) -> None:
    small = http.get("/healthz", {"Accept-Encoding": "gzip"})
    assert "content-encoding" not in small.headers
    assert "vary" not in small.headers
    metrics = http.get("/metrics", {"Accept-Encoding": "gzip"})
    assert (len(metrics.body) > 4096, "content-encoding" in metrics.headers) == (True, False)


def test_the_bound_is_four_kibibytes(http: Http) -> None:
    """A run with a payload that makes the answer a little smaller or larger."""

    def answer(size: int) -> Any:
        run_id = http.submit("echo", {"value": "x" * size}, delay="1h")
        path = f"/api/v1/runs/{run_id}"
        plain, zipped = http.get(path), http.get(path, {"Accept-Encoding": "gzip"})
        return SimpleNamespace(size=len(plain.body), is_zipped="content-encoding" in zipped.headers)

    base = answer(0).size
    assert not answer(4096 - base - 100).is_zipped
    assert answer(4096 - base + 100).is_zipped
