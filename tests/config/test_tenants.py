"""Tenants in documents: what is read, and what is refused."""

import pytest

from interlock.config.sources import load
from interlock.error import BadConfig
from interlock.model.tenant import OverLimit, TenantSpec
from tests.config.writing import put

TENANT = "kind: Tenant\nid: acme\n"
LANE = "---\nkind: Lane\nid: reports\nlimit: 5\n"


@pytest.mark.behaviour("ROU-8")
def test_a_document_declares_a_tenant() -> None:
    put(
        "kind: Tenant\nid: acme\nmax_running: 5\nmax_waiting: 1000\nrate: 10/s\nburst: 20\nover_limit: refuse\n"
        "lanes: [main, reports]\nlabels: {team: data}\n---\nkind: Tenant\nid: other\n" + LANE
    )
    loaded = load(["a.yaml"], lanes=["main"])
    acme = TenantSpec(
        max_running=5, max_waiting=1000, rate=10.0, burst=20, over_limit=OverLimit.REFUSE, lanes=("main", "reports"),
        labels={"team": "data"},
    )  # fmt: skip
    assert loaded.tenants == {"acme": acme, "other": TenantSpec()}
    assert loaded.summary() == "0 jobs, 0 services, 0 groups, 1 lane and 2 tenants"


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("kind: Tenant\nmax_running: 5\n", "a.yaml:1: id: missing"),
        ("kind: Tenant\nid: a b\n", "a.yaml:2: id: 'a b' is not"),
        (TENANT + "max_running: 0\n", "a.yaml:3: max_running: 0 is not a whole number from 1"),
        (TENANT + "max_running: -1\n", "a.yaml:3: max_running: -1 is not a whole number from 1"),
        (TENANT + "max_running: many\n", "a.yaml:3: max_running: 'many' is not"),
        (TENANT + "max_waiting: 0\n", "a.yaml:3: max_waiting: 0 is not a whole number from 1"),
        (TENANT + "max_waiting: -3\n", "a.yaml:3: max_waiting: -3 is not a whole number from 1"),
        (TENANT + "rate: 0/s\n", "a.yaml:3: rate: '0/s' is not"),
        (TENANT + "rate: -1/s\n", "a.yaml:3: rate: '-1/s' is not"),
        (TENANT + "rate: 5/s\nburst: 0\n", "a.yaml:4: burst: 0 is not"),
        (TENANT + "burst: 5\n", "a.yaml:3: burst: 5 is given without rate"),
        (TENANT + "over_limit: drop\n", "a.yaml:3: over_limit: 'drop' is not one of wait, refuse"),
        (TENANT + "lanes: [main, mian]\n", "a.yaml:3: lanes[1]: 'mian' is not declared; use one of main, reports; did"),
        (TENANT + "lanes: main\n", "a.yaml:3: lanes: 'main' is not a list"),
        (TENANT + "labels: {a b: c}\n", "a.yaml:3: labels: 'a b' is not"),
        (TENANT + "labels: [a]\n", "a.yaml:3: labels: "),
        (TENANT + "limit: 5\n", "a.yaml:3: limit: unknown field"),
        (TENANT + "---\n" + TENANT, "a.yaml:5: id: 'acme' is declared twice, first at a.yaml:2"),
    ],
)
def test_a_faulty_tenant_is_refused(text: str, says: str) -> None:
    put(text + LANE)
    with pytest.raises(BadConfig) as caught:
        load(["a.yaml"], lanes=["main"])
    assert str(caught.value).startswith(says)
    assert len(str(caught.value).splitlines()) == 1
