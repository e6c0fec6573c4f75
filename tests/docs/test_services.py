"""What the documents on services and on supervision show holds, as somebody who follows them meets it."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

import interlock as il
from interlock.config.documents import Faults, read
from interlock.config.sources import KINDS, load
from interlock.model.child_info import Status
from interlock.supervision import Container, Group, Process
from interlock.supervision.spec import CONTAINER_FIELDS
from tests.docs.blocks import ROOT, Block, blocks, free_address, run_shell
from tests.helpers.containers import container_engine
from tests.helpers.processes import wait_until
from tests.helpers.server import Server, environment

SERVICES = "docs/services.md"
SUPERVISION = "docs/supervision.md"
EXAMPLE = "examples/services.yaml"
PORT = "9000"
"""which the documents give to a web server"""


def elsewhere(text: str) -> str:
    """The same with another port, one that is free."""
    return text.replace(PORT, free_address().rpartition(":")[2])


def followed(document: str) -> str:
    """A document from top to bottom as one script: files are written, commands are run."""
    return "set -e\n" + "\n".join(_step(block) for block in blocks(document))


def _step(block: Block) -> str:
    if block.file is not None:
        return f"mkdir -p $(dirname {block.file})\ncat > {block.file} <<'END_OF_FILE'\n{block.text}END_OF_FILE\n"
    return block.text if block.language == "sh" else ""


def file_of(document: str, name: str) -> str:
    (found,) = [block.text for block in blocks(document) if block.file == name]
    return found


@pytest.mark.behaviour("SUP-2", "SUP-5", "SUP-7", "SUP-8")
def test_the_document_on_services(folder: Path) -> None:
    said = run_shell(elsewhere(followed(SERVICES)), folder)
    assert re.search(r"^services/web\tprocess\trunning\t\d+\t", said, re.M), said
    assert "added\tservice\tflaky\nchanged\tservice\tweb\n" in said, said
    assert "ended with exit 3; given up after 2 restarts\n" in said, said
    assert re.search(
        r"^services/flaky\tprocess\tfailed\t.*\tgiven up, exit 3; restarted 2 times within 60s$", said, re.M
    )
    assert "exit code 5\n" in said, said
    assert "added\tservice\tshop\nadded\tservice\tstore\nadded\tservice\tcart\n" in said, said
    assert re.search(r"\tstatus\tnext try in \S+s$", said, re.M), said
    assert re.search(r"^services/shop\tsupervisor\trunning\t", said, re.M), said
    assert said.count("\tstdout\ttick\n") == 3, said
    assert re.search(r"^services/ticker\tprocess\tsuspended\t", said, re.M), said
    assert "services/web.yaml:7: restart: 'sometimes' is not one of always, on_failure, never [bad_config]\n" in said, (
        said
    )
    assert "exit code 2\nremoved\tservice\tflaky\n" in said, said
    lives = re.findall(r"ticker, resume id (\S+), exit (-?\d+), signal None$", said, re.M)
    assert [code for _, code in lives] == ["-1", "0", "-1"], said
    assert len({resume_id for resume_id, _ in lives}) == 1, said
    assert re.search(r"^back running None\ncache running \d+\ngreeter running \d+\n", said, re.M), said
    assert "running after signal 15 (SIGTERM)\n" in said, said
    assert "\nstdout hello from a service\n" in said, said
    assert said.count('{"path":"services/web",') == 2, said
    assert '"stream":"status","text":"' in said, said
    assert "event: hello\n" in said, said
    assert 'interlock_service_up{service="web"} 1\n' in said, said
    assert 'interlock_service_restarts_total{service="workers/w1"} 0\n' in said, said
    assert 'interlock_service_exhausted{service="greeter"} 0\n' in said, said


def test_every_field_of_a_service_is_shown_with_its_default(folder: Path) -> None:
    (folder / "fields.yaml").write_text(file_of(SERVICES, "fields.yaml"))
    given = {document.kind: set(document.values) for document in read([str(folder / "fields.yaml")], Faults())[:2]}
    assert given == {kind: set(KINDS[kind][0]) for kind in ("Service", "Group")}
    (whole,) = load([str(folder / "fields.yaml")]).children
    assert isinstance(whole, Group)
    (parts,) = whole.children
    assert isinstance(parts, Group)
    (service,) = parts.children
    assert parts == Group(name="parts", children=[service])
    assert isinstance(service, Process)
    assert service.env == {"PORT": PORT, "DEBUG": "true", "LANG": None}
    assert service.ready is not None
    assert service.ready == il.Ready(tcp=service.ready.tcp)
    assert service.alive == il.Alive(tcp=service.ready.tcp)
    bare = Process(name="everything", command=["sleep", "1000"])
    differs = {name for name in bare.__struct_fields__ if getattr(bare, name) != getattr(service, name)}
    assert differs == {"env", "cwd", "ready", "alive", "limits"}


def test_every_field_of_a_container_is_listed() -> None:
    text = (ROOT / SERVICES).read_text().partition("## Containers")[2].partition("## Limits")[0]
    listed = [name for row in re.findall(r"^\| (`.*?) \|", text, re.M) for name in re.findall(r"`(\w+)`", row)]
    assert sorted(listed) == sorted(CONTAINER_FIELDS)


def test_the_container(folder: Path) -> None:
    (folder / "data").mkdir()
    (folder / "data" / "greeting").write_text("hello\n")
    written = folder / "containers.yaml"
    written.write_text(file_of(SERVICES, "containers.yaml"))
    (child,) = load([str(written)]).children
    assert isinstance(child, Container)
    assert child.volumes == (f"{folder}/data:/data:ro",)
    with container_engine() as engine:
        written.write_text(written.read_text().replace(child.image, engine.image))
        server = Server(folder, str(written), "--http", "local")
        server.extra = {"DOCKER_HOST": f"unix://{engine.socket}"}
        with server, il.Client(f"unix:{server.http_socket}") as client:
            reader = client.act("reader", "start")
            assert (reader.kind, reader.status) == ("container", Status.RUNNING), reader
            wait_until(lambda: "hello" in [line.text for line in client.service_logs("reader")], "it has read")


def test_the_example_and_the_one_of_the_readme(folder: Path) -> None:
    for place in ("docs", "examples"):
        (folder / place).mkdir()
    readme = folder / "readme.yaml"
    readme.write_text(elsewhere(file_of("README.md", "web.yaml").replace("id: web\n", "id: another\n")))
    (folder / EXAMPLE).write_text(elsewhere((ROOT / EXAMPLE).read_text()))
    names = ["another", "web", "moody", "pair", "first", "second"]
    server = Server(folder, str(readme), str(folder / EXAMPLE), "--http", "local")
    with server, il.Client(f"unix:{server.http_socket}") as client:
        assert [one.name for one in client.services()] == names
        # Each answer comes when it is up; some do not stay so for long.
        assert {client.act(name, "start").status for name in names} == {Status.RUNNING}


LAST_LINES = {
    "tree.py": (
        "clock: starting → running",
        "site: supervisor, running, 0 restarts",
        "  shop: supervisor, running, 0 restarts",
        "    store: process, running, 0 restarts",
        "    web: process, running, 0 restarts",
        "  clock: function, running, 2 restarts",
    ),
    "changing.py": (
        "web running",
        "['store', 'web']",
        "duplicate_child - name: site already has a child 'web'",
        "suspended",
        "stopped - signal 15 (SIGTERM)",
        "running",
        "['web']",
    ),
    "handover.py": ("RESUME_ID after -1", "counter: exit 3", "RESUME_ID after 3", "counter: exit 3"),
    "custom.py": ("hello from greeter", "running"),
}
"""what each example of the library prints in the end"""


def test_every_example_of_the_library_is_known() -> None:
    assert [block.file for block in blocks(SUPERVISION)] == list(LAST_LINES)


@pytest.mark.parametrize("name", LAST_LINES)
def test_the_library(name: str, folder: Path) -> None:
    (folder / name).write_text(elsewhere(file_of(SUPERVISION, name)))
    # A warning, such as of something that was left open, is as good as an error.
    done = subprocess.run(
        [sys.executable, "-W", "error", name],
        cwd=folder, env=environment(), capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    ids = set(re.findall(r"\w{8}(?:-\w{4}){3}-\w{12}", done.stdout))
    assert len(ids) == (name == "handover.py"), done.stdout
    said = re.sub("|".join(ids), "RESUME_ID", done.stdout) if ids else done.stdout
    assert said.splitlines()[-len(LAST_LINES[name]) :] == list(LAST_LINES[name]), done.stdout
    assert ("RuntimeError: out of time" in done.stderr) == (name == "tree.py"), done.stderr
