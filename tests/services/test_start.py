"""What `interlock up` is given: an app, files, both; and what it refuses before it starts anything."""

from pathlib import Path

import pytest

from tests.helpers.places import lines_of
from tests.helpers.processes import processes_of, wait_until
from tests.helpers.server import Server, interlock

APP = """\
import os
import interlock as il

app = il.App()
app.group("shop", strategy="one_for_all")
app.service("web", group="shop", process=["sh", "-c", "echo $$ >> web.lives; exec sleep 1000"])
"""


@pytest.fixture(autouse=True)
def jobs(folder: Path) -> Path:
    path = folder / "jobs.py"
    path.write_text(APP)
    return path


def test_services_of_the_app_alone(folder: Path) -> None:
    with Server(folder, "--http", "local", "--workers", "0", target="jobs:app") as server:
        wait_until(lambda: lines_of(folder / "web.lives"), "it runs")
        (pid,) = lines_of(folder / "web.lives")
        child = server.local.get("/api/v1/services/web").json
        assert (child["path"], child["pid"]) == ("services/shop/web", int(pid))
        reloaded = server.local.post("/api/v1/reload").json
        assert reloaded["jobs"] == {"added": [], "changed": [], "removed": [], "unchanged": []}
        assert reloaded["services"] == {"added": [], "changed": [], "removed": [], "unchanged": ["shop", "web"]}
    assert lines_of(folder / "web.lives") == [pid]


@pytest.mark.behaviour("TIM-12", "TIM-13")
def test_jobs_of_files_alone(folder: Path) -> None:
    lines = 'kind: Job\nid: {}\nrun: {{shell: "cat; echo $0 {}"}}\npayload: {{a: 1}}\n'
    (folder / "all.yaml").write_text("---\n".join(lines.format(name, name) for name in ("one", "two", "three")))
    with Server(folder, "all.yaml", "--http", "local", "--submit", "two", target=None) as server:
        wait_until(lambda: server.http_socket.exists(), "it is there")
        (run,) = server.local.get("/api/v1/runs").json["runs"]
        assert server.local.ended(run["id"])["state"] == "succeeded"
        logged = server.local.get(f"/api/v1/runs/{run['id']}/logs").json["lines"]
        assert [line["text"] for line in logged] == ['{"a":1}', "/bin/sh two"]
        assert [one["id"] for one in server.local.get("/api/v1/jobs").json["jobs"]] == ["one", "two", "three"]
        assert [one["source"] for one in server.local.get("/api/v1/jobs").json["jobs"]][1] == "all.yaml:7"


@pytest.mark.parametrize(
    ("document", "says"),
    [
        (
            "kind: Job\nid: web\nrun: {shell: x}\n",
            "files/a.yaml:2: id: 'web' is declared twice, first at jobs.py:6",
        ),
        (
            "kind: Service\nid: other\nrun: {process: [x]}\n---\nkind: Service\nid: web\nrun: {process: [x]}\n",
            "files/a.yaml:6: id: 'web' is declared twice, first at jobs.py:6",
        ),
        (
            "kind: Service\nid: other\ngroup: shoq\nrun: {process: [x]}\n",
            "files/a.yaml:3: group: 'shoq' is not declared; did you mean 'shop'?",
        ),
        ("", "files/gone.yaml: cannot be read (No such file or directory)"),
    ],
    ids=["a job too", "twice", "no such group", "no such file"],
)
def test_a_fault_is_told_before_anything_is_started(folder: Path, document: str, says: str) -> None:
    (folder / "files").mkdir()
    (folder / "files" / "a.yaml").write_text(document)
    given = ["files/a.yaml"] if document else ["files/a.yaml", "files/gone.yaml"]
    ended = interlock(folder, "up", "-A", "jobs:app", *given)
    assert (ended.stderr, ended.stdout, ended.returncode) == (f"error: {says} [bad_config]\n", "", 2)
    assert processes_of(folder) == []
    assert {path.name for path in folder.iterdir()} - {"__pycache__"} == {"jobs.py", "files"}
