"""The catalog of a scheduler, from its app, its files and its settings."""

from collections.abc import Mapping, Sequence
from functools import partial

from interlock.config import Settings
from interlock.config.sources import Loaded
from interlock.engine.catalog import PYTHON, Catalog, CatalogEntry
from interlock.error import BadConfig
from interlock.model.pool import check_member
from interlock.policy.policy import Policy
from interlock.worker.definition import Definition


def entries_of(definitions: Mapping[str, Definition], secret_names: Sequence[str]) -> list[CatalogEntry]:
    """Return the catalog entries of an app's jobs."""
    return [
        CatalogEntry(
            definition.job,
            partial(definition.check, secret_names=secret_names),
            definition.mark if definition.job.secrets else None,
            PYTHON,
        )
        for definition in definitions.values()
    ]


def catalog_of(
    definitions: Mapping[str, Definition], loaded: Loaded, settings: Settings, before: Policy | None
) -> Catalog:
    """Return the catalog of the app's jobs and of what was loaded; `before` is the policy in force."""
    if loaded.policy is None and before is not None:
        raise BadConfig(
            f"policy: {before.id!r} is no longer declared, and stays in force; to allow everything, "
            "declare a policy with 'default_decision: allow', or restart without one"
        )
    if loaded.policy is not None and loaded.policy.rules and settings.policy_service is not None:
        raise BadConfig(
            f"policy: {loaded.policy.id!r} has rules, and policy_service is set: "
            "move the rules to that service, or remove the setting"
        )
    check_member(loaded.pools, settings.pool, settings.capabilities)
    entries = [*entries_of(definitions, settings.secret_names), *loaded.entries()]
    return Catalog(entries, settings.every_lane(loaded.lanes), loaded.policy, loaded.pools, loaded.tenants)
