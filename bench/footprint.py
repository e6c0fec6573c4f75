"""The weight of Interlock: what a plain install brings along, and how soon it is ready."""

import os
import subprocess
import sys
import time
from importlib.metadata import Distribution, distribution
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from interlock.bench import report
from interlock.bench.report import Figure, Measure, ReportRow
from interlock.bench.server import running

IMPORT = "import time; begun = time.perf_counter(); import interlock; print(time.perf_counter() - begun)"
REPEATS = 9


def closure(name: str = "interlock") -> dict[str, Distribution]:
    """Return the package and everything that a plain install of it needs on this platform, by name."""
    found: dict[str, Distribution] = {}
    wanted = [name]
    while wanted:
        one = canonicalize_name(wanted.pop())
        if one not in found:
            found[one] = distribution(one)
            needed = map(Requirement, found[one].requires or ())
            wanted += [it.name for it in needed if it.marker is None or it.marker.evaluate({"extra": ""})]
    return found


def size(packages: dict[str, Distribution]) -> float:
    """Return the megabytes of their files, without the compiled ones that Python adds."""
    sources = Path(__file__).parents[1] / "src"
    own = sum(path.stat().st_size for path in sources.rglob("*") if path.is_file() and path.suffix != ".pyc")
    others = (file.locate() for name, one in packages.items() if name != "interlock" for file in one.files or ())
    paths = (Path(str(path)) for path in others)
    return (own + sum(path.stat().st_size for path in paths if path.suffix != ".pyc" and path.is_file())) / 1e6


def import_times(folder: Path) -> list[float]:
    """Return the milliseconds of `import interlock`, each in a new process."""
    return [float(_output([sys.executable, "-c", IMPORT], folder)) * 1000 for _ in range(REPEATS)]


def command_times(folder: Path) -> list[float]:
    """Return the milliseconds of `interlock runs` against a running server, from start to end of the process."""
    command = [sys.executable, "-m", "interlock.cli", "runs", "--db", str(folder / "bench.db")]
    found = []
    with running(folder, 0, http=True):
        for _ in range(REPEATS):
            begun = time.perf_counter()
            _output(command, folder)
            found.append((time.perf_counter() - begun) * 1000)
    return found


def _output(command: list[str], folder: Path) -> str:
    return subprocess.run(command, cwd=folder, env=dict(os.environ), capture_output=True, text=True, check=True).stdout


MEASURES = {
    "import_ms": Measure("`import interlock`", "ms", import_times),
    "runs_ms": Measure("`interlock runs` against a running server", "ms", command_times),
}


def measure_all(folder: Path, rounds: int) -> tuple[list[ReportRow], dict[str, Figure | float]]:
    packages = closure()
    megabytes = round(size(packages), 1)
    figures = report.take_all(MEASURES, folder, rounds)
    rows = [
        ("packages of a plain install, with Interlock", f"{len(packages)}", ""),
        ("size of these", f"{megabytes:,} MB", ""),
    ]
    return [*rows, *report.rows(MEASURES, figures)], {"packages": len(packages), "megabytes": megabytes, **figures}
