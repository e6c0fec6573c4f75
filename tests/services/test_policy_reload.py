"""A policy in files: a reload takes it, and a bad file leaves the old one in force."""

from pathlib import Path

import pytest

from interlock.config import Settings
from interlock.config.sources import load
from interlock.error import BadConfig
from interlock.model.audit import AuditFilter, AuditKind
from interlock.model.reload_report import Difference
from interlock.wiring.scheduler import Scheduler
from tests.config.test_policy_documents import POLICY, RULE


@pytest.mark.behaviour("POL-12", "SEC-7")
async def test_a_reload_takes_a_policy_and_a_bad_one_leaves_the_old(folder: Path) -> None:
    file = folder / "a.yaml"
    file.write_text(POLICY)
    settings = Settings(database=str(folder / "interlock.db"), http="off", workers=0)
    scheduler = Scheduler({}, None, settings, load=lambda: load([str(file)]))

    def rules() -> list[str]:
        policy = scheduler.engine.present.catalog.policy
        return [] if policy is None else [one.rule.id for one in policy.rules]

    await scheduler.start()
    try:
        assert rules() == ["a"]
        file.write_text(RULE)
        assert (await scheduler.services.reload("test")).policy == Difference(changed=["main"])
        assert rules() == ["a", "b"]
        file.write_text(POLICY)
        await scheduler.services.reload("ann")
        file.write_text(RULE)
        await scheduler.services.reload("bob")
        changes = (await scheduler.store.audit(0, 100, AuditFilter(kind=AuditKind.POLICY_CHANGED))).entries
        assert [one.actor for one in changes] == ["scheduler", "test", "ann", "bob"]
        assert [one.detail["before"] for one in changes] == ["", *(one.detail["after"] for one in changes[:-1])]
        file.write_text(RULE + "  when: tenant == 1\n")
        with pytest.raises(BadConfig, match=r"a\.yaml:7: rules\[1\]\.when: "):
            await scheduler.services.reload("test")
        assert rules() == ["a", "b"]
        file.write_text("")  # as an editor or a full disk may leave it
        with pytest.raises(BadConfig, match="'main' is no longer declared, and stays in force"):
            await scheduler.services.reload("test")
        assert rules() == ["a", "b"]
    finally:
        await scheduler.stop()
