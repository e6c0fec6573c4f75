"""The description is valid OpenAPI, and a client that other people's tool makes of it works with a real server."""

import importlib
import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from openapi_spec_validator import OpenAPIV31SpecValidator

from tests.api.tokens import TOKENS
from tests.helpers.server import Server

Part = Callable[..., Any]

pytestmark = pytest.mark.behaviour("OBS-3")


def test_the_description_is_valid(guarded: Server) -> None:
    description = guarded.http.get("/openapi.json").json
    assert [fault.message for fault in OpenAPIV31SpecValidator(description).iter_errors()] == []


@pytest.fixture(scope="module")
def part(server: Server, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Part]:
    """A function that returns a module of the generated client by its name."""
    place = tmp_path_factory.mktemp("generated")
    (place / "settings.json").write_text(json.dumps({"post_hooks": []}))
    words = ["--url", f"{server.url}/openapi.json", "--config", "settings.json", "--meta", "none"]
    done = subprocess.run(
        [sys.executable, "-m", "openapi_python_client", "generate", *words, "--output-path", "interlock_client"],
        cwd=place, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")
    assert "Warning" not in done.stdout, done.stdout  # it would name the parts that it left out
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(place)
        yield lambda name: importlib.import_module(f"interlock_client.{name}")
    for name in [name for name in sys.modules if name.partition(".")[0] == "interlock_client"]:
        del sys.modules[name]


def test_it_has_every_operation(server: Server, part: Part) -> None:
    for path in server.http.get("/openapi.json").json["paths"].values():
        for operation in path.values():
            tag = operation["tags"][0].replace(" ", "_").replace("-", "_").lower()
            assert callable(part(f"api.{tag}.{operation['operationId']}").sync_detailed)


def test_it_submits_waits_and_reads_errors(server: Server, part: Part) -> None:
    models, submit, run = part("models"), part("api.runs.submit"), part("api.runs.run")
    with part("client").Client(base_url=server.url, timeout=60) as client:

        def submitted(job: str, **payload: Any) -> Any:
            body = models.NewRunBody(job=job, payload=models.NewRunBodyPayloadType0.from_dict(payload))
            return submit.sync(client=client, body=body)

        done = run.sync(submitted("echo", value={"deep": [1, None, "ü"]}).id, client=client, wait="30s")
        assert (done.state, done.result) == (models.State.SUCCEEDED, {"deep": [1, None, "ü"]})
        assert done.created_at <= done.started_at <= done.ended_at
        failed = run.sync(submitted("fail", text="no luck").id, client=client, wait="30s")
        assert (failed.state, failed.outcome) == (models.State.FAILED, "failed")
        assert "RuntimeError: no luck" in failed.error
        for problem, status, code in (
            (run.sync("nobody", client=client), 404, "unknown_run"),
            (submitted("nothing"), 400, "unknown_job"),
            (submitted("add", left="one"), 400, "bad_payload"),
        ):
            assert isinstance(problem, models.ProblemDetails), problem
            assert (problem.status, problem.code) == (status, code), problem


@pytest.mark.behaviour("SEC-2")
def test_it_shows_its_token(guarded: Server, part: Part) -> None:
    jobs, client = part("api.jobs.jobs"), part("client")
    with client.Client(base_url=guarded.url) as stranger:
        refused = jobs.sync(client=stranger)
        assert (refused.status, refused.code) == (401, "unauthorized")
    with client.AuthenticatedClient(base_url=guarded.url, token=TOKENS["boss"].text) as boss:
        assert "echo" in [job.id for job in jobs.sync(client=boss).jobs]
