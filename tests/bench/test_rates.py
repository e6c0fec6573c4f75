"""The benchmark of runs and submits, in little: peers do the work, and figures become ratios."""

import json
from pathlib import Path

import pytest

from bench import __main__ as program
from bench import huey_peer, installed, on_postgres, pgqueuer_peer, postgres_server, procrastinate_peer, rates
from interlock.bench import report
from interlock.bench.report import Figure, Measure
from tests.helpers.places import folder
from tests.helpers.processes import processes_of

__all__ = ["folder"]


@pytest.mark.parametrize("tuning", [pgqueuer_peer.AS_IT_COMES, pgqueuer_peer.TUNED])
def test_pgqueuer_executes_every_job_and_leaves_no_server(folder: Path, tuning: pgqueuer_peer.Tuning) -> None:
    if not installed(*pgqueuer_peer.NEEDS):
        pytest.skip("PgQueuer is not installed")
    assert pgqueuer_peer.end_to_end(folder, 250, tuning) > 0
    assert not processes_of(folder)


def test_huey_executes_every_task(folder: Path) -> None:
    if not installed("huey"):
        pytest.skip("Huey is not installed")
    assert huey_peer.end_to_end(folder, 20) > 0


def test_interlock_on_postgresql_beside_its_peers(folder: Path) -> None:
    if not installed(*postgres_server.NEEDS):
        pytest.skip("PostgreSQL is not installed")
    assert on_postgres.end_to_end(folder, 250) > 0
    assert 0 < on_postgres.take_over(folder, 1000) < 60
    if installed(*procrastinate_peer.NEEDS):
        assert procrastinate_peer.end_to_end(folder, 20) > 0
    assert not processes_of(folder)


def test_a_time_is_compared_the_other_way_round_than_a_rate() -> None:
    figures = {name: Figure("", [value], value) for name, value in
               {"interlock": 30.0, "pgqueuer": 20.0, "commit": 2.0, "latency": 5.0}.items()}  # fmt: skip
    assert on_postgres.ratio(figures, "pgqueuer", "interlock") == 1.5
    assert on_postgres.ratio(figures, "latency", "commit") == 2.5


def test_a_ratio_is_the_median_of_the_rounds(folder: Path) -> None:
    figures = {
        "end_to_end": Figure("runs/s", [10.0, 40.0, 30.0], 30.0),
        "pgqueuer_tuned": Figure("jobs/s", [10.0, 20.0, 10.0], 10.0),
    }
    assert rates.ratios(figures) == {"end_to_end/pgqueuer_tuned": 2.0}
    listed = rates.measures(1, 1)
    assert list(rates.with_ratios(listed, figures, rates.ratios(figures))) == [
        (listed["end_to_end"].label, "30.0 runs/s", ""),
        (listed["pgqueuer_tuned"].label, "10.0 jobs/s", "Interlock is 2.0x"),
    ]


def test_measures_are_taken_in_turns_and_written(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    taken: list[str] = []

    def rate(_: Path) -> float:
        taken.append("rate")
        return 1000.0 * len(taken)

    def samples(_: Path) -> list[float]:
        taken.append("samples")
        return [1.0, 2.0, 9.0]

    measures = {"rate": Measure("a rate", "runs/s", rate), "samples": Measure("samples", "ms", samples)}
    figures = report.take_all(measures, folder, 2)
    assert taken == ["rate", "samples"] * 2
    output = folder / "bench.json"
    report.publish(report.rows(measures, figures), {"measures": figures}, str(output))
    written = json.loads(output.read_text())["measures"]
    assert written["rate"] == {"unit": "runs/s", "rounds": [1000.0, 3000.0], "median": 2000, "p99": None}
    assert written["samples"] == {"unit": "ms", "rounds": [2.0, 2.0], "median": 2.0, "p99": 9.0}
    assert "2,000 runs/s" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--runs", "0"], "error: --runs: 0 is not 1 or more"),
        (
            ["--output", "/nowhere/x.json"],
            "error: --output: '/nowhere/x.json' is not a file in a directory that exists",
        ),
    ],
)
def test_nonsense_is_refused(arguments: list[str], says: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert program.main(arguments) == 1
    assert says in capsys.readouterr().err.replace("\n", " ")
