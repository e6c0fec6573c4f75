"""A declared tenant: a gate that its runs pass, with those that hold a slot, those that are live, and its limits."""

from collections.abc import Iterator
from itertools import islice

from interlock.core.lanes.gate import TENANT_LIMIT, TENANT_RATE, UNLIMITED, Gates, LimitGate, RateGate
from interlock.model.explanation import MOST_NAMED, Reason, ReasonKind
from interlock.model.run import Run
from interlock.model.state import HOLDS_SLOT, State
from interlock.model.tenant import EVERYBODY, OverLimit, TenantSpec


class Tenant(LimitGate, eq=False, kw_only=True):
    spec: TenantSpec
    live: set[str] = set()  # its runs that wait or hold a slot, which are `holders`; not those under way
    refused: int = 0
    is_declared: bool = True  # or has the limits of `*`, and is in memory while it has runs
    gate_names: tuple[str, ...] = ()  # gates that its runs pass to start

    @property
    def id(self) -> str:
        return self.name.partition(":")[2]

    @property
    def waiting(self) -> int:
        return len(self.live) - len(self.holders)

    @property
    def refuses(self) -> bool:
        return self.spec.over_limit is OverLimit.REFUSE

    @property
    def rate(self) -> tuple[float, int] | None:
        return None if self.spec.rate is None else (self.spec.rate, self.spec.burst or 1)

    def adopt(self, spec: TenantSpec) -> None:
        self.spec, self.most = spec, spec.max_running or UNLIMITED
        rate = () if self.rate is None or self.refuses else (TENANT_RATE + self.id,)
        self.gate_names = rate if spec.max_running is None else (*rate, self.name)

    def explain(self) -> Iterator[Reason]:
        if len(self.holders) >= self.most:
            text = f"waits for the limit of tenant {self.id}: {len(self.holders):,} active, {self.most:,} allowed"
            holders = list(islice(sorted(self.holders), MOST_NAMED))
            yield Reason(kind=ReasonKind.TENANT_LIMIT, text=text, name=self.name, holders=holders)

    def add(self, run: Run) -> None:
        """Count a live run, unless it is under way: then it waits for nothing that the tenant may have too much of."""
        if run.state is State.UNDER_WAY:
            return
        self.live.add(run.id)
        if run.state in HOLDS_SLOT:
            self.holders.add(run.id)

    def rate_gate(self, gates: Gates) -> RateGate | None:
        return None if self.rate is None else gates.rate(TENANT_RATE + self.id, *self.rate)


class Tenants(dict[str, Tenant]):
    """Those that are declared, and those with runs under the limits of `*`."""

    def find(self, name: str) -> Tenant | None:
        """Return a tenant with limits: its own, or those of `*`. One that is not in memory stays out of it."""
        tenant, usual = self.get(name), self.get(EVERYBODY)
        if tenant is None and usual is not None:
            tenant = Tenant(name=TENANT_LIMIT + name, spec=usual.spec, is_declared=False)
            tenant.adopt(usual.spec)
        return tenant
