"""Services and groups that are written wrongly: every fault is told, with its line."""

import os
from pathlib import Path

import pytest

from interlock.config.sources import load
from interlock.model.error import BadConfig
from tests.config.writing import SERVICE, fault, put, read, refused

RUNS = "process, function, container"
DURATION = "a duration; use 800ms, 10s, 5m, 2h or 1d"
SIZE = "a number of bytes like 512KiB or 32MiB, from 1B to 1024TiB"
PORT = "a port like '8080:80', '127.0.0.1:8080:80' or '53:53/udp'"
VOLUME = "a volume like '/srv/data:/data' or '/srv/data:/data:ro'"
NOT_LIMITS = "not for a container, which has memory and cpus under run.container"
FORM = "of the form module:name or path/to/file.py:name"
CONTAINER = "image, command, volumes, ports, network, user, memory, cpus, engine"


@pytest.mark.parametrize(
    ("added", "says"),
    [
        ("restrat: never", "'restrat' is not a field of a Service; did you mean 'restart'?"),
        ("strategy: one_for_all", "'strategy' is not a field of a Service"),
        ("restart: sometimes", "restart: 'sometimes' is not one of always, on_failure, never"),
        ("restart: no", "restart: 'no' is not one of always, on_failure, never"),
        ("restart: true", "restart: True is not one of always, on_failure, never"),
        ("restart:", "restart: None is not a value; leave it out for the default"),
        ("stop_timeout: soon", f"stop_timeout: 'soon' is not {DURATION}"),
        ("stop_timeout: -1", "stop_timeout: -1 is not a duration of zero or more"),
        ("stop_timeout: [1]", f"stop_timeout: [1] is not {DURATION}"),
        ("stop_timeout: 1e999", "stop_timeout: inf is not a duration of zero or more"),
        ("stop_timeout:", "stop_timeout: None is not a value; leave it out for the default"),
        ("backoff: 5s", "backoff: '5s' is not a mapping of initial, multiplier, max, jitter, reset_after"),
        ("backoff:", "backoff: None is not a mapping of initial, multiplier, max, jitter, reset_after"),
        ("backoff: {initial: -1}", "backoff.initial: -1 is not a duration of zero or more"),
        ("backoff: {initial: -1s}", f"backoff.initial: '-1s' is not {DURATION}"),
        ("backoff: {intial: 1s}", "backoff: 'intial' is not a field of it; did you mean 'initial'?"),
        ("backoff: {multiplier: 0.5}", "backoff.multiplier: 0.5 is not a number from 1 to 1000"),
        ("backoff: {jitter: 0.2}", "backoff.jitter: 0.2 is not a number from 0 to 0.1"),
        ("backoff: {max: null}", "backoff.max: None is not a value; leave it out for the default"),
        ("budget: {max_restarts: -1}", "budget.max_restarts: -1 is not a whole number of zero or more"),
        ("budget: {max_restarts: many}", "budget.max_restarts: 'many' is not a whole number of zero or more"),
        ("budget: {max_duration: 0}", "budget.max_duration: 0 is not longer than zero"),
        ("budget: {on_exhausted: stop}", "budget.on_exhausted: 'stop' is not one of stop_child, fail_supervisor"),
        ("ready: {htp: 'http://x/'}", "ready: 'htp' is not a field of it; did you mean 'http'?"),
        ("ready: {}", "ready: [] is not exactly one of http, tcp, log, delay"),
        ("ready: {timeout: 1s}", "ready: [] is not exactly one of http, tcp, log, delay"),
        ("ready: {log: a, delay: 1s}", "ready: ['log', 'delay'] is not exactly one of http, tcp, log, delay"),
        ("ready: {http: 'https://x/'}", "ready.http: 'https://x/' is not a URL like http://127.0.0.1:8000/health"),
        ("ready: {http: [1]}", "ready.http: [1] is not a text"),
        ("ready: {tcp: 9000}", "ready.tcp: '9000' is not an address like 127.0.0.1:5432"),
        ("ready: {log: ''}", "ready.log: '' is not a text on one line with more in it than '*'"),
        ("ready: {log: '**'}", "ready.log: '**' is not a text on one line with more in it than '*'"),
        ("ready: {log: [up]}", "ready.log: ['up'] is not a text"),
        ("ready: {delay: 1m}", "ready.timeout: 30.0 is not longer than zero and than the delay"),
        ("ready: {delay: 1s, timeout: 1s}", "ready.timeout: 1.0 is not longer than zero and than the delay"),
        ("ready: soon", "ready: 'soon' is not a mapping of http, tcp, log, delay, timeout"),
        ("alive: {log: a}", "alive: 'log' is not a field of it"),
        ("alive: {tcp: 'a:1', failures: 0}", "alive.failures: 0 is not a whole number of one or more"),
        ("alive: {tcp: 'a:1', every: 0}", "alive.every: 0 is not longer than zero"),
        ("limits: {memory: lots}", f"limits.memory: 'lots' is not {SIZE}"),
        ("limits: {memory: 0}", f"limits.memory: 0 is not {SIZE}"),
        ("limits: {files: 1.5}", "limits.files: 1.5 is not a whole number of one or more"),
        ("limits: {cpu: 10ms}", "limits.cpu: 0.01 is not one second or more"),
        ("limits: {cpus: 1}", "limits: 'cpus' is not a field of it; did you mean 'cpu'?"),
        ("cwd: ''", "cwd: '' is not the path of a folder"),
        ("cwd: [a]", "cwd: ['a'] is not a text"),
        ("env: hunter2", "env: '…' is not a mapping of names to texts"),
        ("env: [TOKEN=hunter2]", "env: '…' is not a mapping of names to texts"),
        ("env:", "env: '…' is not a mapping of names to texts"),
        ("env: {A: [hunter2]}", "env.A: '…' is not a text, or null to take the variable away"),
        ("env: {A: {b: hunter2}}", "env.A: '…' is not a text, or null to take the variable away"),
        ('env: {A: "hunter2\\0"}', "env.A: '…' is not a text, or null to take the variable away"),
        ("env: {A=hunter2: 1}", "env: 'A=…' is not the name of a variable"),
        ("env: {A=hunter2}", "env: 'A=…' is not the name of a variable"),
        ("env: {A=hunter2: [1]}", "env: 'A=…' is not the name of a variable"),
        ("env: {A=hunter2: 1, A=hunter2: 2}", "'env.A=…' is there twice, first on line 4"),
        ("env: {'': 1}", "env: '' is not the name of a variable"),
        ("group: [shop]", "group: ['shop'] is not a text"),
        ("group: shop", "group: 'shop' is not a group that is declared"),
        ("group: web", "group: 'web' is not a group but a service"),
    ],
)  # fmt: skip
def test_fields_that_are_wrong(added: str, says: str) -> None:
    assert fault(f"{SERVICE}{added}\n") == f"a.yaml:4: {says}"


@pytest.mark.parametrize(
    ("run", "says"),
    [
        ("run:", "3: run: missing, but required"),
        ("cwd: /", "1: run: missing, but required"),
        ("run: sleep 5", f"3: run: 'sleep 5' is not a mapping of {RUNS}"),
        ("run: {}", f"3: run: [] is not exactly one of {RUNS}"),
        ("run:\n  proces: [a]", "4: run: 'proces' is not a field of it; did you mean 'process'?"),
        ("run: {process: [a], function: 'a:b'}", f"3: run: ['function', 'process'] is not exactly one of {RUNS}"),
        ("run: {process: sleep 5}", "3: run.process: 'sleep 5' is not a list of program and arguments"),
        ("run: {process: []}", "3: run.process: [] is not a list of program and arguments"),
        ("run: {process: null}", "3: run.process: None is not a list of program and arguments"),
        ("run: {process: ['', a]}", "3: run.process: '' is not the name of a program"),
        ("run:\n  process:\n  - a\n  - [b]", "6: run.process[1]: ['b'] is not a text"),
        ("run: {process: [a, ~]}", "3: run.process[1]: None is not a text"),
        ('run: {process: [a, "b\\0"]}', "3: run.process: 'b\\x00' is not a text without a NUL character"),
        ("run: {function: tick}", f"3: run.function: 'tick' is not {FORM}"),
        ("run: {function: 'a b:c'}", f"3: run.function: 'a b:c' is not {FORM}"),
        ("run: {function: 'a:'}", f"3: run.function: 'a:' is not {FORM}"),
        ("run: {function: [a]}", "3: run.function: ['a'] is not a text"),
        ("run: {container: [a]}", f"3: run.container: ['a'] is not a mapping of {CONTAINER}"),
        ("run: {container: {}}", "3: run.container.image: missing, but required"),
        ("run: {container: {image: null}}", "3: run.container.image: missing, but required"),
        ("run: {container: ' '}", "3: run.container.image: ' ' is not the name of an image"),
        ("run: {container: {image: a, usr: b}}", "3: run.container: 'usr' is not a field of it; did you mean 'user'?"),
        ("run: {container: {image: a, ports: [a]}}", "3: run.container.ports: 'a' is not a text like 'outside:inside'"),
        ("run: {container: {image: a, ports: ['x:80']}}", f"3: run.container.ports: 'x:80' is not {PORT}"),
        ("run: {container: {image: a, volumes: ['a:b']}}", f"3: run.container.volumes: 'a:b' is not {VOLUME}"),
        ("run: {container: {image: a, network: ''}}", "3: run.container.network: '' is not the name of a network"),
        ("run: {container: {image: a, ports: 80}}", "3: run.container.ports: 80 is not a list of texts"),
        ("run: {container: {image: a, command: go}}", "3: run.container.command: 'go' is not a list of texts"),
        ("run: {container: {image: a, cpus: 0}}", "3: run.container.cpus: 0 is not a number of processors"),
        ("run: {container: {image: a, memory: 5 apples}}", f"3: run.container.memory: '5 apples' is not {SIZE}"),
        ("run: {container: a}\nlimits: {files: 1}", f"4: limits: {NOT_LIMITS}"),
    ],
)  # fmt: skip
def test_ways_to_run_that_are_none(run: str, says: str) -> None:
    assert fault(f"kind: Service\nid: web\n{run}\n") == f"a.yaml:{says}"


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("restart: never", "a.yaml:1: id: missing, but required"),
        ("id:", "a.yaml:2: id: missing, but required"),
        ("id: a b", "a.yaml:2: id: 'a b' is not a name of letters, digits, '_', '-' and '.', up to 64 long"),
        ("id: a/b", "a.yaml:2: id: 'a/b' is not a name of letters, digits, '_', '-' and '.', up to 64 long"),
        ("id: -1", "a.yaml:2: id: '-1' is not a name of letters, digits, '_', '-' and '.', up to 64 long"),
        ("id: [a]", "a.yaml:2: id: ['a'] is not a text"),
        ("id: latest", "a.yaml:2: id: 'latest' is not a name to give: in 'interlock logs latest' it is the newest run"),
    ],
)
@pytest.mark.parametrize("rest", ["kind: Service\n{}\nrun: {{process: [a]}}\n", "kind: Group\n{}\n"])
def test_names_that_are_none(rest: str, line: str, says: str) -> None:
    assert fault(rest.format(line)) == says


def test_a_command_that_does_not_exist_is_no_fault_of_the_file() -> None:
    assert read("kind: Service\nid: a\nrun: {process: [/no/such/program]}")[0].name == "a"


def test_every_fault_of_every_file_is_told_at_once() -> None:
    put("""\
kind: Service
id: web
group: shp
run: {proces: [web]}
restart: sometimes
backoff: {intial: 1s, initial: -1, multiplier: 0}
ready: {htp: x, timeout: soon}
alive: {http: x, tcp: y}
limits: {memory: lots, files: -1}
---
kind: Group
id: web
strategy: all
""")
    put("kind: Group\nid: shop\n---\nkind: Service\nid: shop\n", "b.yaml")
    assert refused("a.yaml", "b.yaml") == [
        "15 faults in 2 files",
        "a.yaml:3: group: 'shp' is not a group that is declared; did you mean 'shop'?",
        "a.yaml:4: run: 'proces' is not a field of it; did you mean 'process'?",
        "a.yaml:5: restart: 'sometimes' is not one of always, on_failure, never",
        "a.yaml:6: backoff: 'intial' is not a field of it; did you mean 'initial'?",
        "a.yaml:6: backoff.initial: -1 is not a duration of zero or more",
        "a.yaml:6: backoff.multiplier: 0 is not a number from 1 to 1000",
        "a.yaml:7: ready: 'htp' is not a field of it; did you mean 'http'?",
        f"a.yaml:7: ready.timeout: 'soon' is not {DURATION}",
        "a.yaml:8: alive: ['http', 'tcp'] is not exactly one of http, tcp",
        f"a.yaml:9: limits.memory: 'lots' is not {SIZE}",
        "a.yaml:9: limits.files: -1 is not a whole number of one or more",
        "a.yaml:12: id: 'web' is there twice, first at a.yaml:2",
        "a.yaml:13: strategy: 'all' is not one of one_for_one, one_for_all, rest_for_one",
        "b.yaml:4: run: missing, but required",
        "b.yaml:5: id: 'shop' is there twice, first at b.yaml:2",
    ]


def test_names_are_unique_over_all_files_and_groups() -> None:
    put("kind: Group\nid: one\n---\nkind: Group\nid: two\n")
    put(SERVICE + "group: one\n", "b.yaml")
    put("\n" + SERVICE + "group: two\n", "c.yaml")
    assert refused("a.yaml", "b.yaml", "c.yaml") == ["c.yaml:3: id: 'web' is there twice, first at b.yaml:2"]
    assert refused("c.yaml", "b.yaml", "a.yaml") == ["b.yaml:2: id: 'web' is there twice, first at c.yaml:3"]


def group(name: str, above: str) -> str:
    return f"kind: Group\nid: {name}\ngroup: {above}\n"


def test_a_cycle_of_groups_is_told_once() -> None:
    put("---\n".join([group("a", "b"), group("b", "c"), group("c", "a"), group("outside", "c"), group("d", "d")]))
    put(SERVICE + "group: a\n", "b.yaml")
    assert refused("a.yaml", "b.yaml") == [
        "2 faults in 1 file",
        "a.yaml:3: group: 'b' makes a cycle: a in b in c in a",
        "a.yaml:19: group: 'd' makes a cycle: d in d",
    ]


def test_groups_nest_so_deep_and_no_deeper() -> None:
    def nested(depth: int) -> str:
        return "---\n".join(group(f"g{number}", f"g{number - 1}" if number else "") for number in range(depth))

    assert len(read(nested(20))) == 1
    assert fault(nested(21)) == "a.yaml:83: group: nested more than 20 deep"
    assert len(refused(put(nested(3000)))) == 1


def test_a_group_with_a_fault_is_still_a_group() -> None:
    assert fault("kind: Group\nid: g\nstrategy: x\n---\n" + SERVICE + "group: g") == (
        "a.yaml:3: strategy: 'x' is not one of one_for_one, one_for_all, rest_for_one"
    )


def test_a_group_that_may_be_in_what_could_not_be_read_is_not_missed() -> None:
    put(SERVICE + "group: g\n")
    assert refused("a.yaml", "gone.yaml") == ["gone.yaml: cannot be read (No such file or directory)"]
    put(SERVICE + "group: g\n---\nkind: Grup\nid: g\n")
    assert refused("a.yaml") == ["a.yaml:6: kind: 'Grup' is not one of Service, Group, Job; did you mean 'Group'?"]
    put(SERVICE + "group: g\n---\nkind: Group\nidd: g\n")
    assert refused("a.yaml")[0] == "2 faults in 1 file"


def test_no_message_shows_a_value_of_the_environment() -> None:
    secret = "hunter2"
    for env in (f"[A={secret}]", secret, f"{{A: [{secret}]}}", f'{{A: "{secret}\\0"}}', f"{{A: {{b: {secret}}}}}"):
        put(f"{SERVICE}env: {env}\nrestart: x\n")
        with pytest.raises(BadConfig) as caught:
            load(["a.yaml"])
        assert secret not in str(caught.value)


def test_a_file_is_named_as_it_was_given() -> None:
    put("kind: X", "all/a.yaml")
    here = os.getcwd()
    assert refused("all")[0].startswith("all/a.yaml:1: ")
    assert refused("./all/")[0].startswith("./all/a.yaml:1: ")
    assert refused(str(Path(here) / "all" / "a.yaml"))[0].startswith(f"{here}/all/a.yaml:1: ")
