"""Bad input: every field of a child, with what it must not hold; the message names the field and the value."""

from datetime import timedelta
from typing import Any

import msgspec
import pytest

from interlock.error import BadDuration, BadValue
from interlock.supervision import (
    Alive,
    Backoff,
    Budget,
    Container,
    Custom,
    Function,
    Group,
    Limits,
    OnExhausted,
    Process,
    Ready,
    Restart,
    Strategy,
)
from interlock.supervision.spec import parse_address

NAN, INF = float("nan"), float("inf")


async def run() -> None: ...


NEEDED: dict[type[msgspec.Struct], dict[str, Any]] = {
    Function: {"name": "a", "run": run},
    Process: {"name": "a", "command": ["true"]},
    Container: {"name": "a", "image": "web"},
    Custom: {"name": "a", "factory": run},
    Group: {"name": "a"},
    Ready: {"tcp": "localhost:1"},
    Alive: {"tcp": "localhost:1"},
}
"""what each kind cannot be made without"""

NO_DURATION = [-1, "-1s", "soon", "", "1", "1 s", NAN, INF, -INF, True, None, [], b"1s", timedelta(seconds=-1)]
NO_FLAG = [None, 0, 1, "yes", "true"]
NO_COUNT = [-1, 1.0, 1.5, "1", None, True, 2**60, NAN]
NO_NAME = ["", " ", "a b", "a/b", "-a", ".", "..", ".a", "ä", "a\n", "a\0", "x" * 65, None, 1, b"a"]
NO_COMMAND = ["", "true", b"true", None, 1, [], (), [""], ["", "a"], ["a", 1], ["a", None], ["a\0"], ["a", "b\0"]]
NO_ENV = [None, "A=1", ["A=1"], {"": "x"}, {"A\0": "x"}, {1: "x"}]
NO_ENV_VALUE = [1, 1.5, True, b"x", [], "a\0b"]
NO_URL = [
    *[
        "",
        "localhost",
        "localhost:80/",
        "https://localhost/",
        "ftp://localhost/",
        "http://",
        "http:///x",
        "//localhost/",
    ],
    *[
        "http://localhost:0/",
        "http://localhost:65536/",
        "http://localhost:x/",
        "http://a b/",
        "http://a/ b",
        "http://ä/",
    ],
    *["http://a/\n", "http://[::1/", 1, b"http://localhost/", ["http://localhost/"]],
]
NO_ADDRESS = [
    *["", "localhost", "80", ":80", "localhost:", "localhost:0", "localhost:65536", "localhost:-1", "localhost:x"],
    *["localhost:80:80", "::1:80", "[::1]", "[::1:80", "[]:80", "[x]:80", "a b:80", "a\n:80", "a:80\n", "a:٣", "ä:80"],
    *["a:000080", "a:00008012345", "a/b:80", 80, None, b"a:80"],
]

BAD: list[tuple[type[msgspec.Struct], str, list[Any]]] = [
    (Backoff, "initial", NO_DURATION),
    (Backoff, "max", NO_DURATION),
    (Backoff, "reset_after", NO_DURATION),
    (Backoff, "multiplier", [0, 0.5, 0.999, -1, -2, 1001, NAN, INF, "2", None, True]),
    (Backoff, "jitter", [-0.01, 0.11, 0.1000001, 1, NAN, INF, "0.1", None, True]),
    (Budget, "max_restarts", NO_COUNT),
    (Budget, "max_duration", [0, "0s", *NO_DURATION]),
    (Budget, "on_exhausted", ["", "stop", "STOP_CHILD", None, 1, []]),
    (Ready, "timeout", [0, "0ms", *NO_DURATION]),
    (Alive, "every", [0, *NO_DURATION]),
    (Alive, "timeout", [0, *NO_DURATION]),
    (Alive, "failures", [0, *NO_COUNT]),
    (Limits, "memory", [0, -1, 1.5, "512 apples", True, 2**60]),
    (Limits, "files", [0, -1, 1.5, "10", True]),
    (Limits, "processes", [0, -1, 1.5, "10", True]),
    (Limits, "cpu", [0, 0.5, *[value for value in NO_DURATION if value is not None]]),
    *[
        (kind, field, values)
        for kind in (Function, Process, Container, Custom, Group)
        for field, values in (
            ("name", NO_NAME),
            ("restart", ["", "sometimes", "ALWAYS", None, 1, True, []]),
            ("backoff", [None, 1, {}, {"initial": 1}, Budget()]),
            ("budget", [None, 1, {}, Backoff()]),
            ("stop_timeout", NO_DURATION),
            ("significant", NO_FLAG),
        )
    ],
    (Function, "run", [None, 1, "module:function"]),
    (Function, "announces", NO_FLAG),
    (Function, "start_timeout", NO_DURATION),
    (Process, "command", NO_COMMAND),
    (Process, "env", NO_ENV),
    (Process, "cwd", ["", " ", 1, b"/", "a\0"]),
    (Process, "limits", [None, 1, {}, {"memory": 1}]),
    (Process, "ready", [1, "delay", {}, Alive(tcp="localhost:1")]),
    (Process, "alive", [1, "tcp", {}, Ready(delay=1)]),
    (Process, "outlives", NO_FLAG),
    (Process, "capture", NO_FLAG),
    (Process, "pass_fds", [None, 1, "1", [-1], ["1"], [1.0], [True], [None]]),
    (Container, "image", ["", " ", None, 1, "a\0"]),
    (Container, "command", [value for value in NO_COMMAND if value not in ([], ())]),
    (Container, "env", NO_ENV),
    (Container, "cwd", ["", 1, "a\0"]),
    (Container, "volumes", [None, 1, "/a:/b", [1], [None], ["/a"], ["a:b"], ["./a:/b"], ["/a:/b:/c"], ["/a:b"]]),
    (
        Container,
        "ports",
        [None, 1, "80:80", [80], ["80"], ["80:"], [":80"], ["0:80"], ["80:65536"], ["80:80/x"], ["x:1:1"]],
    ),
    (Container, "network", ["", 1, "a\0"]),
    (Container, "user", ["", 0, "a\0"]),
    (Container, "memory", [0, -1, 1.5, "512 apples", True]),
    (Container, "processes", [0, -1, 1.5, "1", True]),
    (Container, "cpus", [0, -1, 0.001, NAN, INF, "1", True]),
    (Container, "ready", [1, {}]),
    (Container, "alive", [1, {}]),
    (Container, "engine", ["", 1, "a\0"]),
    (Custom, "factory", [None, 1, "module:function"]),
    (Group, "strategy", ["", "all_for_one", None, 1, []]),
    (Group, "children", [None, 1, "ab", [1], [None], [Backoff()], [{}]]),
    (Group, "tolerant", NO_FLAG),
    (Group, "stop_together", NO_FLAG),
]
CASES = [(kind, field, value) for kind, field, values in BAD for value in values]


@pytest.mark.parametrize(("kind", "field", "value"), CASES, ids=[f"{one[0].__name__}.{one[1]}" for one in CASES])
def test_a_bad_value_is_named_with_its_field(kind: type[msgspec.Struct], field: str, value: Any) -> None:
    with pytest.raises((BadValue, BadDuration)) as raised:
        kind(**(NEEDED.get(kind, {}) | {field: value}))
    where = getattr(kind, "where", "")
    error = raised.value
    assert isinstance(error, (BadValue, BadDuration))
    assert error.field.partition("[")[0] == (f"{where}.{field}" if where else field)
    message = str(error)
    assert message.startswith(f"{error.field}: ")
    assert "\n" not in message
    # Of a list or a mapping, what is wrong in it.
    shown = [value, *value] if isinstance(value, (list, tuple, dict, str)) else [value]
    hidden = field == "env" and error.value == "…"
    assert hidden or error.value in shown or error.value is value or error.value != error.value


def test_every_field_is_tried() -> None:
    tried = {(kind, field) for kind, field, _ in BAD}
    with_their_own_test = {
        *[(kind, field) for kind in (Ready, Alive) for field in ("http", "tcp")],
        *[(Ready, "log"), (Ready, "delay"), (Function, "suspend"), (Function, "resume")],
    }
    for kind in (Backoff, Budget, Ready, Alive, Limits, Function, Process, Container, Custom, Group):
        for field in kind.__struct_fields__:
            assert (kind, field) in tried | with_their_own_test, f"{kind.__name__}.{field}"


@pytest.mark.parametrize("kind", [Ready, Alive])
@pytest.mark.parametrize(("field", "value"), [("http", one) for one in NO_URL] + [("tcp", one) for one in NO_ADDRESS])
def test_a_bad_address_of_a_probe(kind: type[Ready] | type[Alive], field: str, value: Any) -> None:
    with pytest.raises(BadValue) as raised:
        kind(**{field: value})
    # None is no address at all.
    assert raised.value.field == (kind.where if value is None else f"{kind.where}.{field}")


@pytest.mark.parametrize(
    "url",
    [
        "http://localhost",
        "http://localhost/",
        "http://127.0.0.1:8000/health?deep=1",
        "http://[::1]:80/",
        "http://u:p@a/",
    ],
)
def test_a_good_url(url: str) -> None:
    assert Ready(http=url).http == url


@pytest.mark.parametrize(
    ("address", "parts"),
    [
        ("localhost:80", ("localhost", 80)),
        ("127.0.0.1:65535", ("127.0.0.1", 65535)),
        ("[::1]:1", ("::1", 1)),
        ("[fe80::1%eth0]:1", ("fe80::1%eth0", 1)),
        ("my-host_1.example:5432", ("my-host_1.example", 5432)),
    ],
)
def test_a_good_address(address: str, parts: tuple[str, int]) -> None:
    assert parse_address(address) == parts


@pytest.mark.parametrize(
    ("kind", "given"),
    [
        (Ready, {}),
        (Ready, {"timeout": 1}),
        (Ready, {"tcp": "a:1", "http": "http://a/"}),
        (Ready, {"delay": 1, "log": "x"}),
        (Alive, {}),
        (Alive, {"tcp": "a:1", "http": "http://a/"}),
    ],
)
def test_a_probe_is_of_exactly_one_kind(kind: type[Ready] | type[Alive], given: dict[str, Any]) -> None:
    with pytest.raises(BadValue, match=f"^{kind.where}: .*; give exactly one of {', '.join(kind.one_of)}$"):
        kind(**given)


@pytest.mark.parametrize("kind", [Ready, Alive, Backoff, Budget, Limits])
def test_a_probe_that_is_unknown_is_no_field(kind: type[msgspec.Struct]) -> None:
    with pytest.raises(TypeError, match="udp"):
        kind(udp="localhost:1")


@pytest.mark.parametrize("text", ["", "*", "***", "up\n", "up\n*", 1, b"up", ["up"]])
def test_what_is_looked_for_in_a_line_is_a_text_with_something_in_it(text: Any) -> None:
    with pytest.raises(BadValue) as raised:
        Ready(log=text)
    assert (raised.value.field, raised.value.value) == ("ready.log", text)


@pytest.mark.parametrize("text", [" ", "*a", "a*", "(", "[", "^(a+)+$", "\t", "?"])
def test_any_other_text_can_be_looked_for(text: str) -> None:
    assert Ready(log=text).log == text


@pytest.mark.parametrize("delay", [*[value for value in NO_DURATION if value is not None], 30, "31s"])
def test_a_delay_is_shorter_than_the_time_for_it(delay: Any) -> None:
    with pytest.raises((BadValue, BadDuration), match=r"^ready\.(delay|timeout): "):
        Ready(delay=delay)


@pytest.mark.parametrize(
    "given", [{"suspend": run}, {"resume": run}, {"suspend": 1, "resume": run}, {"suspend": run, "resume": "x"}]
)
def test_who_can_be_suspended_can_be_resumed(given: dict[str, Any]) -> None:
    with pytest.raises(BadValue, match=r"^(suspend|resume): "):
        Function(name="a", run=run, **given)


@pytest.mark.parametrize("kind", [Process, Container])
@pytest.mark.parametrize("value", NO_ENV_VALUE)
def test_the_value_of_a_variable_is_a_text(kind: type[msgspec.Struct], value: Any) -> None:
    with pytest.raises(BadValue, match=r"^env\.NAME: "):
        kind(**NEEDED[kind], env={"NAME": value})


@pytest.mark.parametrize("kind", [Process, Container])
@pytest.mark.parametrize("name", ["A=hunter2", "A=hunter2=hunter2", "A=hunter2\0"])
def test_a_name_that_was_given_with_its_value_is_shown_without_it(kind: type[msgspec.Struct], name: str) -> None:
    with pytest.raises(BadValue, match=r"^env: 'A=…' is not the name of a variable$") as raised:
        kind(**NEEDED[kind], env={name: "x"})
    assert raised.value.value == "A=…"


# And what is good is taken as people write it.


def test_what_is_written_becomes_what_is_meant() -> None:
    backoff = Backoff(initial="500ms", max=timedelta(minutes=1), reset_after="2m", multiplier=1, jitter=0)
    assert (backoff.initial, backoff.max, backoff.reset_after) == (0.5, 60, 120)
    budget = Budget(max_restarts=3, max_duration="1h", on_exhausted="fail_supervisor")  # type: ignore[arg-type]
    assert (budget.max_duration, budget.on_exhausted) == (3600, OnExhausted.FAIL_SUPERVISOR)
    group = Group(name="g", strategy="rest_for_one", restart="never")  # type: ignore[arg-type]
    assert (group.strategy, group.restart) == (Strategy.REST_FOR_ONE, Restart.NEVER)
    assert Limits(cpu="1h", memory=1).cpu == 3600
    assert Ready(delay="2s").delay == 2
    assert Function(name="a", run=run, stop_timeout="1m", start_timeout=0).stop_timeout == 60


def test_lists_and_mappings_are_taken_as_they_are_now() -> None:
    """Whoever made them may go on using them."""
    command, env, ports = ["a", "b"], {"A": "1", "B": None}, ["127.0.0.1:80:80/udp"]
    children = iter([Process(name="a", command=command, env=env)])
    group = Group(name="g", children=children)  # type: ignore[arg-type]
    container = Container(name="a", image="i", command=[], ports=ports, volumes=["/a:/b:ro", "data:/data"], env=env)
    command.clear()
    env.clear()
    ports.clear()
    (process,) = group.children
    assert isinstance(process, Process)
    assert (process.command, process.env) == (("a", "b"), {"A": "1", "B": None})
    assert (container.command, container.ports, container.env) == ((), ("127.0.0.1:80:80/udp",), {"A": "1", "B": None})
    assert len(group.children) == 1


def test_a_command_may_be_made_before_each_start() -> None:
    assert callable(Process(name="a", command=lambda birth: ["a", birth.resume_id]).command)


def test_what_outlives_its_supervisor_is_not_captured() -> None:
    with pytest.raises(BadValue, match="outlives: cannot be combined with capture"):
        Process(name="a", command=["true"], outlives=True)
    assert Process(name="a", command=["true"], outlives=True, capture=False).outlives
