"""Services and groups that a program declares: checked at once, and put together with those of files."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

import interlock as il
from interlock.config.sources import FromApp, load
from interlock.error import BadConfig, InterlockError
from interlock.supervision import Container, Group, Process, Restart, Strategy
from interlock.worker.service import ServiceOptions
from tests.config.writing import SERVICE, put

HERE = Path(__file__).name


def lines_of(error: Exception) -> list[str]:
    return str(error).split("\n")


def test_each_kind_of_service(app: il.App) -> None:
    @app.service("ticker", restart="on_failure", stop_timeout="3s", env={"A": "1", "B": None}, group="shop")
    async def tick(context: il.ServiceContext) -> None: ...

    app.service(
        "web", process=["web", "--port", "80"], ready=il.Ready(tcp="h:80"), limits=il.Limits(files=9), cwd="below"
    )
    app.service("base", container={"image": "postgres", "memory": "1GiB", "ports": ["1:2"]}, alive=il.Alive(tcp="h:1"))
    app.service("cache", container="redis", backoff=il.Backoff(initial=1), budget=il.Budget(max_restarts=2))
    app.group("shop", strategy="one_for_all", restart="never")
    assert tick.__name__ == "tick"
    web, base, cache, shop = load([], FromApp(services=app.services, target="jobs:app")).children
    assert web == Process(
        name="web",
        command=("web", "--port", "80"),
        cwd=str(Path("below").absolute()),
        ready=il.Ready(tcp="h:80"),
        limits=il.Limits(files=9),
    )
    assert base == Container(name="base", image="postgres", memory=2**30, ports=["1:2"], alive=il.Alive(tcp="h:1"))
    assert cache == Container(
        name="cache", image="redis", backoff=il.Backoff(initial=1), budget=il.Budget(max_restarts=2)
    )
    assert isinstance(shop, Group)
    assert (shop.name, shop.strategy, shop.restart) == ("shop", Strategy.ONE_FOR_ALL, Restart.NEVER)
    (ticker,) = shop.children
    assert isinstance(ticker, Process)
    assert (ticker.restart, ticker.stop_timeout, ticker.env) == (Restart.ON_FAILURE, 3, {"A": "1", "B": None})
    assert not callable(ticker.command)
    options = msgspec.json.decode(ticker.command[3], type=ServiceOptions)
    assert (options.name, options.app, options.function) == ("ticker", "jobs:app", "")


def test_they_come_before_those_of_files_and_share_groups_with_them(app: il.App) -> None:
    app.group("mine")
    app.service("a", process=["a"], group="theirs")
    put("kind: Group\nid: theirs\n---\nkind: Service\nid: b\ngroup: mine\nrun: {process: [b]}\n---\n" + SERVICE)

    def names(children: Any) -> list[Any]:
        return [(one.name, names(one.children)) if isinstance(one, Group) else one.name for one in children]

    assert names(load(["a.yaml"], FromApp(services=app.services)).children) == [
        ("mine", ["b"]),
        ("theirs", ["a"]),
        "web",
    ]


def test_faults_that_only_show_together_name_both_places(app: il.App) -> None:
    app.service("web", process=["a"], group="shp")
    app.group("shop", group="shop")
    put(SERVICE)
    with pytest.raises(BadConfig) as caught:
        load(["a.yaml"], FromApp(services=app.services))
    first, line = app.services[0].spot, app.services[0].spot.line
    assert first.file.endswith(HERE)
    assert sorted(lines_of(caught.value)) == sorted(
        [
            "3 faults in 2 files",
            f"{first}: group: 'shp' is not declared; did you mean 'shop'?",
            f"{first.file}:{line + 1}: group: 'shop' makes a cycle: shop in shop",
            f"a.yaml:2: id: 'web' is declared twice, first at {first}",
        ]
    )


@pytest.mark.parametrize("second", ["service", "group", "function"])
def test_a_name_is_there_once(app: il.App, second: str) -> None:
    app.group("a")
    again: dict[str, Callable[[], Any]] = {
        "service": lambda: app.service("a", process=["a"]),
        "group": lambda: app.group("a"),
        "function": lambda: app.service("a")(print),
    }
    says = rf"^service: 'a' is defined twice, at .*{HERE}:\d+ and at .*{HERE}:\d+$"
    with pytest.raises(InterlockError, match=says) as caught:
        again[second]()
    assert caught.value.code == "duplicate_service"
    assert len(app.services) == 1


def test_a_place_is_named_from_the_current_folder() -> None:
    namespace: dict[str, Any] = {}
    put("import interlock as il\napp = il.App()\napp.service('a',\n  process=['a'])\n", "jobs.py")
    exec(compile(Path("jobs.py").read_text(), str(Path("jobs.py").absolute()), "exec"), namespace)
    assert str(namespace["app"].services[0].spot) == "jobs.py:3"


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"name": "a b"}, "name: 'a b' is not"),
        ({"name": 5}, "name: 5 is not"),
        ({"name": "latest"}, "name: 'latest' is not"),
        ({"process": "sleep 5"}, "process: 'sleep 5' is not"),
        ({"process": []}, "process: [] is not"),
        ({"process": ["a"], "container": "b"}, "service: process and container are given together"),
        ({"restart": "maybe"}, "restart: 'maybe' is not"),
        ({"stop_timeout": "soon"}, "stop_timeout: 'soon' is not"),
        ({"backoff": {"initial": 1}}, "backoff: {'initial': 1} is not"),
        ({"backoff": {}}, "backoff: {} is not"),
        ({"budget": 5}, "budget: 5 is not"),
        ({"ready": "http://x"}, "ready: 'http://x' is not"),
        ({"alive": il.Ready(delay=1)}, "alive: Ready("),
        ({"limits": {"files": 1}}, "limits: {'files': 1} is not"),
        ({"group": "a b"}, "group: 'a b' is not"),
        ({"group": 5}, "group: 5 is not"),
        ({"env": {"A": 5}}, "env.A: '…' is not"),
        ({"env": ["A=hunter2"]}, "env: '…' is not"),
        ({"env": {"A=hunter2": "x"}}, "env: 'A=…' is not"),
        ({"cwd": ""}, "cwd: '' is not"),
        ({"cwd": 5}, "cwd: 5 is not"),
        ({"container": 5}, "container: 5 is not"),
        ({"container": {}}, "container: image"),
        ({"container": {"image": "a", "imge": "b"}}, "container: 'imge' is not"),
        ({"container": {"image": ""}}, "image: '' is not"),
        ({"container": {"image": "a", "ports": 80}}, "ports: 80 is not"),
        ({"container": {"image": "a", "user": 5}}, "user: 5 is not"),
        ({"container": {"image": "a", "memory": "much"}}, "memory: 'much' is not"),
        ({"container": "a", "limits": il.Limits(files=1)}, "limits: "),
    ],
)  # fmt: skip
def test_what_is_wrong_is_raised_at_once(app: il.App, options: dict[str, Any], says: str) -> None:
    given = {"name": "a"} | ({} if {"container", "process"} & set(options) else {"process": ["a"]}) | options
    with pytest.raises(InterlockError) as caught:
        app.service(**given)
    assert str(caught.value).startswith(says)
    assert caught.value.code in ("bad_value", "bad_duration")
    assert app.services == []


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"name": ""}, "name: '' is not"),
        ({"name": "latest"}, "name: 'latest' is not"),
        ({"strategy": "all"}, "strategy: 'all' is not"),
        ({"group": []}, "group: [] is not"),
        ({"budget": {"max_restarts": 1}}, "budget: {'max_restarts': 1} is not"),
    ],
)
def test_groups_that_are_wrong(options: dict[str, Any], says: str) -> None:
    with pytest.raises(InterlockError) as caught:
        il.App().group(**({"name": "a"} | options))
    assert str(caught.value).startswith(says)


def _two(first: int, second: int) -> None: ...


def _by_name(*, only: int) -> None: ...


def _generator() -> Any:
    yield 1


@pytest.mark.parametrize(
    ("function", "says"),
    [
        (_two, "_two needs first, second"),
        (_by_name, "_by_name needs only"),
        (_generator, "_generator is a generator"),
        (5, "5 cannot be called"),
    ],
)
def test_functions_that_are_no_service(function: Any, says: str) -> None:
    with pytest.raises(InterlockError, match="service 'a': ") as caught:
        il.App().service("a")(function)
    assert says in str(caught.value)
    assert caught.value.code == "bad_handler"


def test_a_function_is_not_named_like_the_newest_run(app: il.App) -> None:
    with pytest.raises(InterlockError, match=r"^name: 'latest' is not "):
        app.service("latest")(print)
    assert app.services == []


def test_a_command_takes_no_function() -> None:
    decorate: Callable[[Any], Any] = il.App().service("a", process=["a"])
    with pytest.raises(InterlockError, match="service: process and a function are given together"):
        decorate(print)


def test_what_is_declared_is_the_same_however_often_it_is_loaded(app: il.App) -> None:
    app.service("a")(print)
    first = load([], FromApp(services=app.services, target="jobs:app")).children
    assert first == load([], FromApp(services=app.services, target="jobs:app")).children
    assert first != load([], FromApp(services=app.services, target="other:app")).children
