"""The tenants that the document shows are read as it says."""

from pathlib import Path

from interlock.config.sources import load
from interlock.model.tenant import OverLimit, TenantSpec
from tests.docs.test_services import file_of


def test_the_document_on_tenants(folder: Path) -> None:
    (folder / "tenants.yaml").write_text(file_of("docs/tenants.md", "tenants.yaml"))
    tenants = load([str(folder / "tenants.yaml")], lanes=["main", "team"]).tenants
    assert tenants["acme"] == TenantSpec(
        max_running=20, max_waiting=10_000, rate=10.0, burst=50, lanes=("main", "team"), labels={"customer": "acme"}
    )
    assert tenants["trial"].over_limit is OverLimit.REFUSE
