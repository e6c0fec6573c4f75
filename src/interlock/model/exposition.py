"""Metrics in the text format of Prometheus, version 0.0.4."""

from collections.abc import Iterable, Mapping

import msgspec

_IN_HELP = str.maketrans({"\\": "\\\\", "\n": "\\n"})
_IN_LABEL = str.maketrans({"\\": "\\\\", "\n": "\\n", '"': '\\"'})


class Family(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """One metric with its samples."""

    name: str
    kind: str
    text: str
    samples: list[tuple[str, dict[str, str], float]]  # suffix of the name, labels, value


def exposition(families: Iterable[Family]) -> str:
    lines: list[str] = []
    for family in families:
        lines.append(f"# HELP {family.name} {family.text.translate(_IN_HELP)}")
        lines.append(f"# TYPE {family.name} {family.kind}")
        lines += [f"{family.name}{suffix}{_labels(labels)} {_value(value)}" for suffix, labels, value in family.samples]
    return "".join(f"{line}\n" for line in lines)


def _labels(labels: Mapping[str, str]) -> str:
    if not labels:
        return ""
    return "{" + ",".join(f'{name}="{value.translate(_IN_LABEL)}"' for name, value in labels.items()) + "}"


def _value(value: float) -> str:
    if value != value:
        return "NaN"
    if value in (float("inf"), float("-inf")):
        return "+Inf" if value > 0 else "-Inf"
    return str(int(value)) if value == int(value) else repr(value)
