"""The digest of a job's code: the same wherever the same source is loaded, another after any change."""

import subprocess
import sys
from pathlib import Path

import pytest

from interlock.worker.app_loader import code_digest, load_app, load_app_again, source_folders

BASE = """
def f(a: int, b: str = "x") -> list[int]:
    def inner(c):
        return c + 1
    if b in {"x", "y", "z"}:
        return [inner(one) for one in (lambda: range(a))()]
    return []
"""
CHANGES = {
    "a constant": ("c + 1", "c + 2"),
    "a name": ("range(a)", "reversed(a)"),
    "an operator": ("c + 1", "c - 1"),
    "a set": ('"y", "z"', '"y", "w"'),
    "a default": ('b: str = "x"', 'b: str = "q"'),
    "an annotation": ("a: int", "a: float"),
    "the result": ("list[int]", "list[float]"),
    "a new argument": ("a: int, b", "a: int, c: int, b"),
    "async": ("def f", "async def f"),
    "a lambda": ("lambda: range(a)", "lambda: range(0, a)"),
    "a decorator": ("def f", "import functools\ndeco = functools.cache\n@deco\ndef f"),
}


def digest_of(source: str, file: str = "a.py") -> str:
    names: dict[str, object] = {"__name__": "made"}
    exec(compile(source, file, "exec"), names)
    return code_digest(names["f"])  # type: ignore[arg-type] # a function of the source


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_every_change_of_code_or_signature_changes_it(change: tuple[str, str]) -> None:
    assert change[0] in BASE
    assert digest_of(BASE.replace(*change)) != digest_of(BASE)


def test_lines_comments_and_paths_do_not_change_it() -> None:
    assert digest_of(
        f"\n\n# a comment{BASE.replace('return []', '# why not' + chr(10) + '    return []')}"
    ) == digest_of(BASE, "other.py")


def test_a_decorator_counts_with_the_function_that_it_wraps() -> None:
    wrapped = "def deco(g):\n    def w(*a, **k):\n        return g(*a, **k)\n    return w\n" + BASE.replace(
        "def f", "@deco\ndef f"
    )
    assert len({digest_of(wrapped), digest_of(BASE), digest_of(wrapped.replace("c + 1", "c + 3"))}) == 3


@pytest.mark.parametrize("values", [("OSError", "ValueError"), ("(1, 2)", "(1, 3)"), ("(OSError,)", "(KeyError,)")])
def test_the_arguments_of_a_decorator_count(values: tuple[str, str]) -> None:
    made = "def make(x):\n    def deco(g):\n        return lambda *a: g(x, *a)\n    return deco\n"
    before, after = (digest_of(made + BASE.replace("def f", f"@make({one})\ndef f")) for one in values)
    assert before != after


def test_functions_of_its_module_that_it_names_count() -> None:
    text = "def far():\n    return 1\n\ndef near():\n    return far(), near\n\ndef other():\n    return 1\n"
    text += BASE.replace("c + 1", "near()")
    changed = {name: digest_of(text.replace(f"def {name}():\n    return", f"def {name}():\n    return 0,"))
               for name in ("far", "near", "other")}  # fmt: skip
    assert changed["other"] == digest_of(text)
    assert len(set(changed.values())) == 3


def test_every_start_of_python_finds_the_same(tmp_path: Path) -> None:
    text = f"from interlock.worker.app_loader import code_digest\nclass K: pass\nkind = K()\n{BASE}"
    text = text.replace('b: str = "x"', 'b: K = kind, c: object = frozenset("abcdef"), d: object = print')
    (tmp_path / "made.py").write_text(text + "print(code_digest(f))\n")
    (tmp_path / "other.py").write_text("import made")
    found = {
        subprocess.run(
            [sys.executable, f"{name}.py"],
            cwd=tmp_path, env={"PYTHONHASHSEED": seed}, capture_output=True, text=True, check=True,
        ).stdout
        for name, seed in (("made", "1"), ("made", "2"), ("other", "3"))
    }  # fmt: skip
    assert len(found) == 1


def test_an_app_is_imported_again_with_its_modules_or_not_at_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = tmp_path / "pack_again"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "helper.py").write_text("NAME = 'one'\n")
    text = (
        "import interlock as il\nfrom pack_again import helper\napp = il.App()\n@app.job(helper.NAME)\ndef f(): ...\n"
    )
    (package / "jobs.py").write_text(text)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    target = "pack_again.jobs:app"
    first = load_app(target)
    assert source_folders(target) == [str(package)]
    (package / "helper.py").write_text("NAME = 'two'\n")
    assert list(load_app_again(target).definitions) == ["two"]
    assert list(first.definitions) == ["one"]
    (package / "jobs.py").write_text("raise RuntimeError")
    known = sys.modules["pack_again.helper"]
    with pytest.raises(Exception, match="RuntimeError"):
        load_app_again(target)
    assert sys.modules["pack_again.helper"] is known
    assert list(load_app(target).definitions) == ["two"]
