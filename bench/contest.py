"""Interlock beside peers, several figures of each: as rows of the table, each peer with its ratio to Interlock."""

from collections.abc import Iterator, Mapping, Sequence

from interlock.bench.report import ReportRow

INTERLOCK = "interlock"
Figures = Mapping[str, float | None]


def rows(
    what: str, metrics: Mapping[str, str], found: Mapping[str, Figures], missing: Sequence[str]
) -> Iterator[ReportRow]:
    """`metrics` has the label of each figure, and its unit behind a comma."""
    for key, text in metrics.items():
        label, _, unit = text.rpartition(", ")
        ours = found[INTERLOCK][key]
        for name, figures in found.items():
            value, ratio = figures[key], ""
            if name != INTERLOCK and value is not None and ours:
                ratio = f"{value / ours:,.2f} of Interlock's"
            what_it_is = f"{what}: {label}" if name == INTERLOCK else f"  {name}"
            yield what_it_is, "none" if value is None else f"{value:,} {unit}", ratio
    for name in missing:
        yield f"{what}: {name}", "not installed", ""
