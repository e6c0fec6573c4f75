"""Which files are read as documents, and what is said of those that cannot be."""

import os
from pathlib import Path

import pytest

from interlock.config.documents import Faults, Spot, read
from interlock.config.plain_yaml import LARGEST, LONGEST_NAME
from interlock.config.sources import load
from interlock.error import BadConfig
from tests.config.writing import SERVICE, fault, put, refused
from tests.config.writing import read as children
from tests.helpers.places import unprivileged


def service(name: str) -> str:
    return f"kind: Service\nid: {name}\nrun: {{process: [{name}]}}\n"


def test_a_file_has_several_documents_each_with_its_lines() -> None:
    put(f"# services\n---\n{service('a')}---\n# nothing but this\n---\nkind: Group\nid: b\n...\n")
    first, second = read(["a.yaml"], Faults())
    assert (first.kind, first.file, first.values) == ("Service", "a.yaml", {"id": "a", "run": {"process": ["a"]}})
    assert first.spot() == Spot("a.yaml", 3)
    assert first.spot("run.process[0]") == Spot("a.yaml", 5)
    assert first.spot("run.container.image") == Spot("a.yaml", 5)
    assert first.spot("ready") == Spot("a.yaml", 3)
    assert (second.kind, second.values, str(second.spot("id"))) == ("Group", {"id": "b"}, "a.yaml:10")


def test_a_folder_is_read_by_name_and_not_below() -> None:
    for name in ("b.yml", "a.yaml", "c.yaml", "below/d.yaml", "not.yaml.bak", ".hidden.yaml"):
        put(service(name[0].replace(".", "h")), f"all/{name}")
    put("app: jobs:app\n", "all/interlock.yaml")
    Path("all/folder.yaml").mkdir()
    assert [document.file for document in read(["all"], Faults())] == ["all/a.yaml", "all/b.yml", "all/c.yaml"]
    assert [child.name for child in load(["all/c.yaml", "all/"]).children] == ["c", "a", "b"]


def test_a_file_that_is_named_twice_counts_once() -> None:
    put(SERVICE, "all/a.yaml")
    os.symlink("all/a.yaml", "same.yaml")
    assert [
        child.name for child in load(["all/a.yaml", "all", "same.yaml", os.path.abspath("all/a.yaml")]).children
    ] == ["web"]


@pytest.mark.parametrize("text", ["", "\n", "# nothing\n", "---\n---\n", "null\n", "\ufeff"])
def test_a_file_without_a_document_is_fine(text: str) -> None:
    assert children(text) == []


def test_an_empty_folder_is_a_warning() -> None:
    Path("all").mkdir()
    warning = "all: no file in this folder ends in .yaml or .yml"
    assert (load(["all"]).children, load(["all"]).warnings) == ([], [warning])
    with pytest.raises(BadConfig, match=f"^{warning}$"):
        load(["all"], strict=True)
    put("app: jobs:app\n", "all/interlock.yaml")
    assert load(["all"]).warnings == [warning], "settings are no documents"
    put(SERVICE, "all/folder.yaml/a.yaml")
    assert load(["all"]).warnings == [f"{warning}; subfolders are not searched"]
    put("# nothing yet\n", "all/a.yaml")
    assert load(["all"]).warnings == []
    assert (load([]).children, load([]).warnings) == ([], [])


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("kind: Servce\nid: a", "a.yaml:1: kind: 'Servce' is unknown"),
        (
            "id: a\nkind: service",
            "a.yaml:2: kind: 'service' is unknown",
        ),
        ("kind: Zebra", "a.yaml:1: kind: 'Zebra' is unknown"),
        ("kind: [Service]", "a.yaml:1: kind: ['Service'] is unknown"),
        ("\n\nid: a", "a.yaml:3: kind: missing"),
        ("kind:", "a.yaml:1: kind: missing"),
        ("- kind: Service", "a.yaml:1: a list is not"),
        ("just text", "a.yaml:1: a single value is not"),
        ("---\n# first\n---\n5", "a.yaml:4: a single value is not"),
        (SERVICE + "id: again", "a.yaml:4: 'id' given twice, first on line 2"),
        (SERVICE + "env: {A: 1, A: 2}", "a.yaml:4: 'env.A' given twice, first on line 4"),
        (SERVICE + "env: &x {A: 1}", "a.yaml:4: anchors and aliases ('&', '*') "),
        (SERVICE + "env: *x", "a.yaml:4: anchors and aliases ('&', '*') "),
        (SERVICE + "env: !!python/name:os.system", "a.yaml:4: tags like"),
        (SERVICE + "env: {A: 1", "a.yaml:5: not valid YAML ("),
        (SERVICE + "env: " + "[" * 30 + "]" * 30, "a.yaml:4: nested more than 20 deep"),
        (SERVICE + "? [a]\n: 1", "a.yaml:4: a name must be text"),
        (SERVICE + f"? {'x' * (LONGEST_NAME + 1)}\n: 1", "a.yaml:4: a name of more than 300 characters"),
        (SERVICE.encode() + b"env: \xff", "a.yaml:4: not UTF-8 text"),
        ("#" * (LARGEST + 1), "a.yaml: larger than 1,000,000 bytes"),
        ("\0", "a.yaml: not valid YAML ("),
    ],
)
def test_files_that_are_wrong(text: str | bytes, says: str) -> None:
    assert fault(text).startswith(says)


def test_a_billion_laughs_are_refused_at_the_first() -> None:
    lines = ["a: &a [x, x]"] + [
        f"{after}: &{after} [*{before}, *{before}]" for before, after in zip("abc", "bcd", strict=True)
    ]
    assert fault("\n".join(lines)).startswith("a.yaml:1: anchors and aliases")


def test_files_that_cannot_be_opened() -> None:
    os.mkfifo("pipe.yaml")
    os.symlink("nowhere", "all.yaml")
    assert refused("gone.yaml", "pipe.yaml", "all.yaml", "/dev/null") == [
        "4 faults in 4 files",
        "/dev/null: cannot be read (not a regular file)",
        "all.yaml: cannot be read (No such file or directory)",
        "gone.yaml: cannot be read (No such file or directory)",
        "pipe.yaml: cannot be read (not a regular file)",
    ]


def test_what_may_not_be_read() -> None:
    put(SERVICE, "all/a.yaml")
    put(SERVICE)
    os.chmod("a.yaml", 0)
    os.chmod("all", 0)
    try:
        with unprivileged():
            assert refused("a.yaml", "all")[1:] == [
                "a.yaml: cannot be read (Permission denied)",
                "all: cannot be read (Permission denied)",
            ]
    finally:
        os.chmod("all", 0o700)


def test_documents_before_a_fault_are_read_and_their_faults_told() -> None:
    put("kind: Group\nid: a\nstrategy: none\n---\nkind: Grup\n---\nid: [\n")
    put("kind: Service\nid: b\n", "b.yaml")
    assert refused("b.yaml", "a.yaml") == [
        "4 faults in 2 files",
        "a.yaml:3: strategy: 'none' is not",
        "a.yaml:5: kind: 'Grup' is unknown",
        refused("a.yaml")[-1],
        "b.yaml:1: run: missing",
    ]
    assert refused("a.yaml")[-1].startswith("a.yaml:8: not valid YAML (")


def test_more_faults_than_anyone_reads_are_counted() -> None:
    put("---\n".join(["kind: X\n"] * 250))
    lines = refused("a.yaml")
    assert (lines[0], len(lines), lines[-1]) == ("250 faults in 1 file", 202, "… and 50 more")


def test_a_name_that_would_break_a_line_does_not() -> None:
    assert fault(SERVICE + 'env: {"A\\nb.yaml:1: x=": 1}') == ("a.yaml:4: env: 'A\\nb.yaml:1: x=…' is not")
    assert fault(SERVICE + 'env: {"A\\nB": [1]}') == ("a.yaml:4: env.A B: '…' is not")
