"""`interlock bench`."""

from typing import Annotated

from interlock.cli.shared.options import option


def command(
    runs: Annotated[int, option("NUMBER", "Runs in each end-to-end measurement.")] = 50_000,
    waiting: Annotated[int, option("NUMBER", "Waiting runs in the memory measurement.")] = 100_000,
    rounds: Annotated[int, option("NUMBER", "Rounds of each measurement; the median counts.")] = 3,
    output: Annotated[str | None, option("FILE", "Write the figures to this file as JSON.")] = None,
) -> None:
    """Measure Interlock on this machine: runs end to end, idle latency, submits over HTTP, memory."""
    from interlock.bench import report
    from interlock.bench.measures import interlock

    with report.workspace(output, runs=runs, waiting=waiting, rounds=rounds) as folder:
        measures = interlock(runs, waiting)
        figures = report.take_all(measures, folder, rounds)
    report.publish(report.rows(measures, figures), {"measures": figures}, output)
