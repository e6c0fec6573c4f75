"""Services and groups from documents: what is made of them."""

import os
import sys
from typing import Any

import msgspec
import pytest

from interlock import supervision as sup
from interlock.config.sources import load
from interlock.worker.service import ServiceOptions
from tests.config.writing import SERVICE, put, read


def options_of(child: sup.Child) -> ServiceOptions:
    assert isinstance(child, sup.Process)
    assert not callable(child.command)
    assert child.command[:3] == (sys.executable, "-m", "interlock.worker.service_process")
    return msgspec.json.decode(child.command[3], type=ServiceOptions)


def names(children: Any) -> list[Any]:
    """The tree as names; a group is a pair of its own and those below it."""
    return [(one.name, names(one.children)) if isinstance(one, sup.Group) else one.name for one in children]


def test_a_service_with_everything_that_one_may_have() -> None:
    text = """\
kind: Service
id: web
run: {process: ["python", "-m", "http.server", "9000"]}
env: {PORT: "9000"}
cwd: /srv/web
restart: on_failure
backoff: {initial: 500ms, multiplier: 3, max: 20s, jitter: 0.05, reset_after: 2m}
budget: {max_restarts: 5, max_duration: 1m, on_exhausted: fail_supervisor}
stop_timeout: 15s
ready: {http: "http://127.0.0.1:9000/", timeout: 20s}
alive: {tcp: "127.0.0.1:9000", every: 11s, timeout: 6s, failures: 4}
limits: {memory: 512MiB, files: 1024, processes: 100, cpu: 1h}
"""
    assert read(text) == [
        sup.Process(
            name="web",
            command=("python", "-m", "http.server", "9000"),
            env={"PORT": "9000"},
            cwd="/srv/web",
            restart=sup.Restart.ON_FAILURE,
            backoff=sup.Backoff(initial=0.5, multiplier=3, max=20, jitter=0.05, reset_after=120),
            budget=sup.Budget(max_restarts=5, max_duration=60, on_exhausted=sup.OnExhausted.FAIL_SUPERVISOR),
            stop_timeout=15,
            ready=sup.Ready(http="http://127.0.0.1:9000/", timeout=20),
            alive=sup.Alive(tcp="127.0.0.1:9000", every=11, timeout=6, failures=4),
            limits=sup.Limits(memory=512 * 2**20, files=1024, processes=100, cpu=3600),
        )
    ]


def test_the_smallest_service_has_the_defaults() -> None:
    assert read(SERVICE) == [sup.Process(name="web", command=("web",))]
    nothing = "group:\ncwd: null\nready: ~\nalive:\nlimits: {memory: null}\nenv: {}\nbackoff: {}\nbudget: {}\n"
    assert read(SERVICE + nothing) == read(SERVICE)


@pytest.mark.parametrize(
    ("ready", "made"),
    [
        ("{tcp: 'localhost:80'}", sup.Ready(tcp="localhost:80")),
        ("{log: ready in * s, timeout: 5}", sup.Ready(log="ready in * s", timeout=5)),
        ("{log: 8080}", sup.Ready(log="8080")),
        ("{delay: 2s}", sup.Ready(delay=2)),
        ("{delay: 1m, timeout: 2m, http: null}", sup.Ready(delay=60, timeout=120)),
    ],
)
def test_ways_to_be_ready(ready: str, made: sup.Ready) -> None:
    assert read(f"{SERVICE}ready: {ready}\n") == [sup.Process(name="web", command=("web",), ready=made)]


def test_the_environment_is_text_as_it_was_written() -> None:
    text = """\
env:
  PORT: 9000
  OCTAL: 0o17
  ZERO: 007
  VERSION: 1.10
  POWER: 1e3
  YES: yes
  TRUE: true
  "NO": False
  TIME: 12:30
  DATE: 2020-01-01
  EMPTY: ""
  QUOTED: "5"
  LINES: |
    one
    two
  GONE: null
  GONE_TOO:
"""
    (child,) = read(SERVICE + text)
    assert isinstance(child, sup.Process)
    assert child.env == {
        "PORT": "9000",
        "OCTAL": "0o17",
        "ZERO": "007",
        "VERSION": "1.10",
        "POWER": "1e3",
        "YES": "yes",
        "TRUE": "true",
        "NO": "False",
        "TIME": "12:30",
        "DATE": "2020-01-01",
        "EMPTY": "",
        "QUOTED": "5",
        "LINES": "one\ntwo\n",
        "GONE": None,
        "GONE_TOO": None,
    }


def test_numbers_are_texts_wherever_texts_are_wanted() -> None:
    assert read("kind: Service\nid: 080\nrun: {process: [sleep, 1.50, -0, true]}") == [
        sup.Process(name="080", command=("sleep", "1.50", "-0", "true"))
    ]


def test_paths_begin_at_the_folder_of_the_file() -> None:
    here = os.getcwd()
    put("kind: Service\nid: a\nrun: {process: [a]}\ncwd: ../data\n", "all/a.yaml")
    put("kind: Service\nid: b\nrun: {function: ../code/b.py:main}\ncwd: .\n", "all/b.yaml")
    put(
        "kind: Service\nid: c\nrun: {container: {image: c, volumes: ['./d:/d:ro', 'named:/n', '/e:/e']}}\ncwd: in\n",
        "all/c.yaml",
    )
    first, second, third = load(["all"]).children
    assert isinstance(first, sup.Process)
    assert isinstance(second, sup.Process)
    assert isinstance(third, sup.Container)
    assert (first.cwd, second.cwd, third.cwd) == (f"{here}/data", f"{here}/all", "in")
    assert options_of(second).function == f"{here}/code/b.py:main"
    assert third.volumes == (f"{here}/all/d:/d:ro", "named:/n", "/e:/e")


def test_a_function_is_a_process_that_runs_it() -> None:
    (child,) = read("kind: Service\nid: tick\nrun: {function: 'jobs.ticking:Clock.tick'}\nlimits: {files: 9}\n")
    options = options_of(child)
    assert (options.name, options.app, options.function) == ("tick", "", "jobs.ticking:Clock.tick")
    assert set(options.path) >= {path for path in sys.path if path}
    assert isinstance(child, sup.Process)
    assert child.limits == sup.Limits(files=9)


def test_a_container_with_everything_that_one_may_have() -> None:
    text = """\
kind: Service
id: base
run:
  container:
    image: postgres:16
    command: [postgres, -c, 5]
    volumes: ["/data:/var/lib/postgresql/data"]
    ports: [5432:5432, "127.0.0.1:80:80"]
    network: backend
    user: 999
    memory: 1.5GiB
    cpus: 1.5
    engine: unix:///run/docker.sock
env: {POSTGRES_PASSWORD: hunter2}
cwd: /inside
ready: {log: ready to accept}
"""
    assert read(text) == [
        sup.Container(
            name="base",
            image="postgres:16",
            command=("postgres", "-c", "5"),
            volumes=("/data:/var/lib/postgresql/data",),
            ports=("5432:5432", "127.0.0.1:80:80"),
            network="backend",
            user="999",
            memory=3 * 2**29,
            cpus=1.5,
            engine="unix:///run/docker.sock",
            env={"POSTGRES_PASSWORD": "hunter2"},
            cwd="/inside",
            ready=sup.Ready(log="ready to accept"),
        )
    ]
    assert read("kind: Service\nid: a\nrun: {container: redis}") == [sup.Container(name="a", image="redis")]


def test_groups_nest_and_everything_stands_where_it_was_declared() -> None:
    def service(name: str, group: str) -> str:
        return f"kind: Service\nid: {name}\ngroup: {group}\nrun: {{process: [{name}]}}\n"

    put("---\n".join([service("a", "inner"), service("b", ""), service("c", "shop")]))
    put("---\n".join(["kind: Group\nid: shop\nstrategy: one_for_all\n", service("d", "")]), "b.yaml")
    put("---\n".join([service("e", "shop"), "kind: Group\nid: inner\ngroup: shop\n", service("f", "inner")]), "c.yaml")
    tree = load(["a.yaml", "b.yaml", "c.yaml"]).children
    assert names(tree) == ["b", ("shop", ["c", "e", ("inner", ["a", "f"])]), "d"]
    shop = tree[1]
    assert isinstance(shop, sup.Group)
    assert (shop.strategy, shop.restart) == (sup.Strategy.ONE_FOR_ALL, sup.Restart.ALWAYS)


def test_a_group_with_everything_that_one_may_have() -> None:
    text = """\
kind: Group
id: shop
strategy: rest_for_one
restart: never
backoff: {initial: 1s}
budget: {max_restarts: 2}
"""
    assert read(text) == [
        sup.Group(
            name="shop",
            strategy=sup.Strategy.REST_FOR_ONE,
            restart=sup.Restart.NEVER,
            backoff=sup.Backoff(initial=1),
            budget=sup.Budget(max_restarts=2),
        )
    ]


def test_the_same_files_give_equal_specs() -> None:
    put(SERVICE + "---\nkind: Service\nid: b\nrun: {function: a:b}\n---\nkind: Group\nid: g\n")
    assert load(["a.yaml"]) == load(["a.yaml"])
