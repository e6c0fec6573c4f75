"""The invariants bite: a system that is broken on purpose is found out within a few seeds."""

from itertools import count, islice

import pytest

from soak.simulation.scenario import Faults, Sabotage, scenario_of
from soak.simulation.simulate import simulate

MOST_SEEDS = 80
TWO_SCHEDULERS = Faults.only("replace_scheduler", "break_links")
CUT_OFF = Faults.only("replace_scheduler", "kill_scheduler", "fail_store", "cut_ways")
DOUBTS = Faults.only("replace_scheduler", "doubt_writes")
ANSWERS = Faults.only("disturb_answers")
DEATHS = Faults.only("kill_scheduler", "crash_at_commit")
JUMPS = Faults.only("jump_clock")
WORKERS_AWAY = Faults.only("pause_worker", "isolate_worker")


NEEDS = {
    "judge": "policy",
    "route": "routes",
    "flow": "workflows",
    "saga": "sagas",
    "store_undoes_again": "sagas",
    "inspector": "scans",
    "engine_opens_early": "lanes",
    "store_loses_audit": "policy",
    "store_prunes_occurrences": "timetable",
    "store_shows_held": "scans",
    "store_prunes_unfenced": "prunes",
    "store_ends_leases_early": "is_cluster",
    "store_forgets_holders": "is_cluster",
    "store_trusts_warnings": "is_synchronous",
    "worker_waits_longer": "is_cluster",
}
"""sabotage, or its first word → what a seed must have for it to show"""
RARE = {
    "engine_forgets_rates": 87,
    "engine_ignores_types": 73,
    "engine_kills_hastily": 28,
    "store_loses_payloads": 26,
    "engine_forgets_times": 18,
    "store_prunes_occurrences": 53,
    "worker_waits_longer": 184,
}
"""sabotage → the first seed that notices it, so that nobody has to wait for it; later ones do if that changes"""


@pytest.mark.parametrize(
    ("sabotage", "faults", "noticed"),
    [
        ("store_loses_commits", Faults(), "does not join|not stored|unknown|is gone|not exist|the history of|was told"),
        ("store_keeps_late", Faults(), "not stored"),
        ("store_forgets_keys", Faults(), "has the runs|have the key|is retried twice"),
        ("store_prunes_keys", Faults(), "has the runs|was answered with|was pruned"),
        ("store_prunes_occurrences", Faults(), "is created a second time|was pruned"),
        ("store_doubles_history", Faults(), "does not join"),
        (
            "store_ignores_epochs",
            TWO_SCHEDULERS,
            "does not join|had ended|was told|the history of|a second time|missed",
        ),
        ("store_reads_epochs", DOUBTS, "had ended|the cursor of|does not join|was told|the history of|a second time"),
        ("store_keeps_epochs", DOUBTS, "had ended|missed|does not join|was told|the history of|a second time"),
        ("store_ends_leases_early", TWO_SCHEDULERS, "takes a lease that has not ended"),
        ("store_trusts_warnings", Faults.only("fall_behind"), "and no replica had them|is acknowledged and not stored"),
        ("store_forgets_holders", CUT_OFF, "leads again, and another has led since"),
        ("store_prunes_unfenced", TWO_SCHEDULERS, "prunes, its lease is over"),
        ("engine_ignores_fences", WORKERS_AWAY, "ended under fence|nobody asked|still executes|its attempt"),
        ("engine_forgets_limits", Faults(), "its limit is"),
        ("store_loses_cursors", Faults(), "is created a second time|also ran at"),
        ("store_forgets_retries", DEATHS, "is retried twice by|is told of as"),
        ("store_loses_payloads", Faults.only(), "payloads of others"),
        ("store_loses_submitters", Faults.only(), "and its parent"),
        ("store_keeps_unique_keys", Faults.only(), "keeps its key"),
        ("store_frees_keys_early", Faults.only(), "have the key"),
        ("engine_forgets_times", Faults.only("kill_scheduler", "jump_clock"), "has no runs at"),
        ("engine_reuses_attempts", Faults(), "begins attempt"),
        ("engine_suspects_all", Faults(), "is suspected"),
        ("engine_forgets_bulks", DEATHS, "clients wait for [bulk-|clients wait for [again-"),
        ("engine_forgets_holds", Faults(), "is held|which was given up"),
        ("engine_forgets_turns", DEATHS, "active runs, it allows|which is busy|overtakes|wait for nothing"),
        ("engine_forgets_usage", Faults(), "which is busy|wait for nothing"),
        ("engine_loses_runs", Faults.only(), "the scheduler missed|has finished, and"),
        ("engine_loses_timers", Faults.only(), "the scheduler missed"),
        ("engine_applies_answers_twice", ANSWERS, "is sent out twice"),
        ("engine_asks_once", ANSWERS, "no rest"),
        ("engine_forgets_unsent", Faults(), "no rest|was said to wait for nothing|the scheduler missed"),
        ("engine_forgets_rates", DEATHS, "has the rate"),
        ("engine_opens_early", Faults.only(), "limits count|may at once"),
        ("engine_ignores_age", Faults.only(), "started before it"),
        ("engine_keeps_limits", Faults.only(), "its limit is"),
        ("engine_frees_twice", Faults.only(), "are not those of the runs"),
        ("engine_ignores_delays", Faults.only(), "elapsed time"),
        ("engine_ignores_types", Faults.only(), "against its rules|failed for good"),
        ("engine_counts_wall_time", JUMPS, "elapsed time|was said to wait|, it had "),
        ("engine_explains_once", Faults.only(), "was said to"),
        ("engine_explains_late", Faults.only(), "was said to wait"),
        ("engine_forgets_places", DEATHS, "passed, |may be"),
        ("engine_kills_hastily", Faults.only(), "passed, "),
        ("engine_renames_requests", Faults.only(), "was made as"),
        ("engine_skips_hooks", Faults.only(), "its hook has not agreed"),
        ("store_loses_deliveries", Faults.only(), "owes no webhook"),
        ("sender_forgets", Faults.only(), "never arrived|its hook has not agreed"),
        ("store_loses_audit", Faults.only(), "the audit is broken|and the audit has"),
        ("judge_keeps_verdicts", Faults(), "says deny|asks, approved|without a verdict of|starts with RunLimits"),
        ("judge_reuses_approvals", Faults.only(), "asks, approved: ('|who submitted it"),
        ("judge_lets_own_approve", Faults.only(), "who submitted it"),
        ("judge_fails_open", Faults.only(), "starts without a verdict"),
        ("judge_ignores_expiry", Faults(), "s, it had 5s|the scheduler missed"),
        ("store_shows_held", Faults.only(), "unscanned"),
        ("inspector_is_silent", Faults.only(), "scanners that are at work"),
        ("flow_forgets_record", DEATHS, "is created a second time|starts after its workflow"),
        ("flow_ends_early", Faults.only(), "are not over|has no step under way|have not stopped"),
        ("flow_leaves_siblings", Faults.only(), "inside it are not over|is created a second time"),
        ("flow_widens_window", Faults.only(), "are live, 2 may be"),
        ("flow_wakes_early", Faults.only(), "s of 2.0s"),
        ("saga_undoes_oldest_first", Faults.only(), "which completed later"),
        ("store_undoes_again", DEATHS, "is created a second time"),
        ("saga_drops_early_events", Faults.only(), "is created a second time"),
        ("saga_takes_stale_turns", Faults(), "which has not ended|has not ordered it|no rest|still executes"),
        ("saga_loses_taken_over", Faults.only(), "does not fit its function|has taken over"),
        ("route_ignores_tenants", Faults.only(), ", which is for "),
        ("route_ignores_labels", Faults.only(), ", which has no "),
        ("route_ignores_drain", Faults.only(), "leaves: True|drained: True"),
        ("route_forgets_parked", Faults.only(), "could take it"),
        ("route_counts_less", Faults.only(), "active runs, "),
        ("route_gives_up_soon", Faults.only(), "is given up"),
        ("worker_begins_twice", Faults(), "executes twice"),
        ("worker_waits_longer", Faults.only("replace_scheduler"), "its worker is well"),
        ("worker_begins_late", WORKERS_AWAY, "which was given up"),
        ("link_loses_stops", Faults.only(), "no rest"),
    ],
)
def test_sabotage_is_noticed(sabotage: str, faults: Faults, noticed: str) -> None:
    need = NEEDS.get(sabotage) or NEEDS.get(sabotage.partition("_")[0])
    seeds = (seed for seed in count(RARE.get(sabotage, 0)) if need is None or getattr(scenario_of(seed), need))
    for seed in islice(seeds, MOST_SEEDS):
        report = simulate(seed, faults, Sabotage(**{sabotage: True}))
        if report.violation is not None:
            assert any(one in report.violation for one in noticed.split("|")), report.violation
            return
    raise AssertionError(f"{MOST_SEEDS} seeds did not notice")


@pytest.mark.parametrize("faults", [TWO_SCHEDULERS, CUT_OFF, DOUBTS, WORKERS_AWAY, ANSWERS, JUMPS, Faults.only()])
def test_without_sabotage_the_same_seeds_hold(faults: Faults) -> None:
    for seed in range(10):
        assert simulate(seed, faults).violation is None
