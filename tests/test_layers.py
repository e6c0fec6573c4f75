"""The layers of the package, also where a module is only named in a text, as for a program or a late import."""

import ast
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "src" / "interlock"
NAMED = re.compile(r"interlock\.[a-z_.]+")


def layers() -> dict[str, int]:
    """Return each package with its height."""
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    (found,) = [one["layers"] for one in contracts if one["name"] == "imports point downwards"]
    return {name: -depth for depth, layer in enumerate(found) for name in re.split(" [|:] ", layer)}


def named_modules(file: Path) -> Iterator[str]:
    """Yield the packages of ours that a file names in a text."""
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and (found := NAMED.match(node.value)):
            parts = found[0].rstrip(".").split(".")[1:]
            if PACKAGE.joinpath(*parts).is_dir() or PACKAGE.joinpath(*parts).with_suffix(".py").is_file():
                yield f"interlock.{parts[0]}"


def test_no_module_names_one_above_it() -> None:
    height = layers()
    found = [
        f"{file.relative_to(PACKAGE)} names {name}"
        for file in sorted(PACKAGE.rglob("*.py"))
        for name in named_modules(file)
        if (own := f"interlock.{file.relative_to(PACKAGE).with_suffix('').parts[0]}") in height
        and height[name] > height[own]
    ]
    assert not found
