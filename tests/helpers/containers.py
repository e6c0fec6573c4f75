"""A real container engine for tests: a Podman service of their own, with a small image, or one that is named.

`INTERLOCK_TEST_CONTAINERS` names the socket of an engine to use instead, `INTERLOCK_TEST_IMAGE` an image in it that has
a shell and the usual small programs in `/bin`. With `INTERLOCK_TEST_CONTAINERS=required`, tests that find no engine
fail instead of being skipped.
"""

import hashlib
import http.server
import io
import json
import os
import shutil
import signal
import socket
import subprocess
import tarfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from interlock.bench.server import with_parent
from tests.helpers.http import Http
from tests.helpers.places import clean_folder
from tests.helpers.processes import wait_until

PROGRAMS = ("cat", "echo", "env", "false", "id", "pwd", "sh", "sleep", "true")
BLOCKED = "blocked.test"
"""a registry from which nothing may be pulled"""
SETTINGS = """\
[containers]
default_ulimits = ["nofile=1024:1024", "nproc=1000:1000"]
log_driver = "k8s-file"
[engine]
runtime = "runc"
cgroup_manager = "cgroupfs"
events_logger = "file"
lock_type = "file"
tmp_dir = "{folder}/tmp"
[network]
network_config_dir = "{folder}/networks"
"""
REGISTRIES = """\
[[registry]]
location = "{blocked}"
blocked = true
[[registry]]
location = "127.0.0.1"
insecure = true
"""


class ContainerEngine:
    """Looks at an engine from outside, without any code of ours."""

    def __init__(self, path: Path, image: str) -> None:
        self.socket = path
        self.image = image

    def labelled(self, label: str) -> list[str]:
        answer = Http(self.socket).get("/containers/json", all=1, filters=json.dumps({"label": [label]}))
        assert answer.status == 200, answer
        return [one["Id"] for one in answer.json]

    def inspect(self, container: str) -> dict[str, Any]:
        answer = Http(self.socket).get(f"/containers/{container}/json")
        assert answer.status == 200, answer
        found: dict[str, Any] = answer.json
        return found

    def post(self, path: str, body: Any = None, **query: object) -> Any:
        answer = Http(self.socket).ask("POST", path, body, {}, **query)
        assert answer.status < 300, answer
        return answer.json if answer.body else None

    def remove_image(self, image: str) -> None:
        answer = Http(self.socket).ask("DELETE", f"/images/{image}", force=1)
        assert answer.status in (200, 404), answer


class Podman(ContainerEngine):
    """A service with storage of its own, which can be killed and started again."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder / "podman.sock", "localhost/interlock-test:latest")
        self._folder = folder
        self._process: subprocess.Popen[bytes] | None = None
        (folder / "containers.conf").write_text(SETTINGS.format(folder=folder))
        (folder / "registries.conf").write_text(REGISTRIES.format(blocked=BLOCKED))
        places = ("--root", str(folder / "root"), "--runroot", str(folder / "run"), "--storage-driver", "vfs")
        self._command = ("podman", *places)
        self._environment = os.environ | {
            "CONTAINERS_CONF": str(folder / "containers.conf"),
            "CONTAINERS_REGISTRIES_CONF": str(folder / "registries.conf"),
        }

    def run(self, *arguments: str) -> "subprocess.CompletedProcess[str]":
        return subprocess.run(
            [*self._command, *arguments],
            env=self._environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )

    def why_not(self) -> str:
        """Make the image and run it once; what is wrong, if that does not work."""
        archive = self._folder / "image.tar"
        with tarfile.open(archive, "w") as tar:
            add_programs(tar)
        for arguments in (
            ("import", str(archive), self.image),
            ("run", "--rm", "--network", "none", self.image, "/bin/true"),
        ):
            done = self.run(*arguments)
            if done.returncode != 0:
                return f"podman {arguments[0]}: {done.stderr.strip()[-300:]}"
        return ""

    def start(self) -> None:
        with (self._folder / "service.log").open("ab") as log:
            self._process = subprocess.Popen(
                [*self._command, "system", "service", "--time", "0", f"unix://{self.socket}"],
                env=self._environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                preexec_fn=with_parent(),
            )
        wait_until(self._answers, "the container engine answers")

    def _answers(self) -> bool:
        with socket.socket(socket.AF_UNIX) as probe, suppress(OSError):
            probe.connect(str(self.socket))
            return True
        return False

    def kill(self) -> None:
        """As a crash would; its containers run on."""
        assert self._process is not None
        self._process.send_signal(signal.SIGKILL)
        self._process.wait(30)
        self.socket.unlink()

    def clean_up(self) -> None:
        self.run("rm", "--all", "--force", "--time", "0")
        if self._process is not None:
            self.kill()
        mounts = [line for line in Path("/proc/self/mounts").read_text().splitlines() if str(self._folder) in line]
        assert mounts == []


@contextmanager
def container_engine() -> Iterator[ContainerEngine]:
    """Skip the tests that need an engine where none works; fail them if one is required."""
    named = os.environ.get("INTERLOCK_TEST_CONTAINERS")
    no_engine = pytest.fail if named == "required" else pytest.skip
    if named and named != "required":
        yield ContainerEngine(Path(named), os.environ.get("INTERLOCK_TEST_IMAGE", "busybox"))
        return
    missing = [program for program in ("podman", "runc", "busybox", "catatonit") if shutil.which(program) is None]
    if missing:
        no_engine(f"no containers without {', '.join(missing)}")
    with clean_folder() as folder:
        podman = Podman(folder)
        try:
            if why := podman.why_not():
                no_engine(f"containers do not work here: {why}")
            podman.start()
            yield podman
        finally:
            podman.clean_up()


def add_programs(image: tarfile.TarFile) -> None:
    image.add(shutil.which("busybox") or "", "bin/busybox")
    for program in PROGRAMS:
        link = tarfile.TarInfo(f"bin/{program}")
        link.type, link.linkname = tarfile.SYMTYPE, "busybox"
        image.addfile(link)


@contextmanager
def registry() -> Iterator[str]:
    """Serves one image, and yields its name."""
    archive = io.BytesIO()
    with tarfile.open(fileobj=archive, mode="w") as tar:
        add_programs(tar)
    blobs: dict[str, bytes] = {}

    def keep(data: bytes, kind: str) -> dict[str, Any]:
        digest = f"sha256:{hashlib.sha256(data).hexdigest()}"
        blobs[digest] = data
        return {"mediaType": f"application/vnd.{kind}", "digest": digest, "size": len(data)}

    layer = keep(archive.getvalue(), "oci.image.layer.v1.tar")
    config = {"architecture": "amd64", "os": "linux", "rootfs": {"type": "layers", "diff_ids": [layer["digest"]]}}
    manifest = {
        "schemaVersion": 2,
        "config": keep(json.dumps(config).encode(), "oci.image.config.v1+json"),
        "layers": [layer],
    }
    kind = "application/vnd.oci.image.manifest.v1+json"

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            name = self.path.rpartition("/")[2]
            body = json.dumps(manifest).encode() if "/manifests/" in self.path else blobs.get(name, b"{}")
            self.send_response(200)
            self.send_header("Content-Type", kind if "/manifests/" in self.path else "application/octet-stream")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: Any) -> None:
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        serving = threading.Thread(target=server.serve_forever)
        serving.start()
        try:
            yield f"127.0.0.1:{server.server_port}/pulled:1"
        finally:
            server.shutdown()
            serving.join()


def frame(stream: int, content: bytes) -> bytes:
    """A piece of a log, as engines send it."""
    return bytes([stream, 0, 0, 0]) + len(content).to_bytes(4) + content
