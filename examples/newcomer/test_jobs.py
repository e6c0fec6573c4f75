"""Tests of the jobs: at once, and on virtual time."""

from datetime import date

from examples.newcomer.jobs import Model, Report, app, fingerprint, research
from interlock import testing


def test_research_is_retried_and_goes_on_after_its_checkpoint() -> None:
    run = app.test(research.call(date(2030, 1, 31), ["owls", "foxes"]), state=Model())
    assert run.result == Report(date(2030, 1, 31), ["about owls", "about foxes"])
    assert (run.attempts, run.delays) == (3, [0.1, 0.2])


def test_a_fingerprint() -> None:
    assert app.test(fingerprint.call(b"owl", rounds=1)).result.hex().startswith("10f7127b")


def test_the_night() -> None:
    with testing.scheduler(app) as scheduler:
        scheduler.advance("3d")
        assert len(scheduler.fired("clean-up")) == 3
