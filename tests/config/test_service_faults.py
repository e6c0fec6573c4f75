"""Services and groups that are written wrongly: every fault is told, with its line."""

import os
from pathlib import Path

import pytest

from interlock.config.sources import load
from interlock.error import BadConfig
from tests.config.writing import SERVICE, fault, put, read, refused


@pytest.mark.parametrize(
    ("added", "says"),
    [
        ("restrat: never", "restrat: unknown field; did you mean 'restart'?"),
        ("strategy: one_for_all", "strategy: unknown field"),
        ("restart: sometimes", "restart: 'sometimes' is not"),
        ("restart: no", "restart: 'no' is not"),
        ("restart: true", "restart: True is not"),
        ("restart:", "restart: None is not"),
        ("stop_timeout: soon", "stop_timeout: 'soon' is not"),
        ("stop_timeout: -1", "stop_timeout: -1 is not"),
        ("stop_timeout: [1]", "stop_timeout: [1] is not"),
        ("stop_timeout: 1e999", "stop_timeout: inf is not"),
        ("stop_timeout:", "stop_timeout: None is not"),
        ("backoff: 5s", "backoff: '5s' is not"),
        ("backoff:", "backoff: None is not"),
        ("backoff: {initial: -1}", "backoff.initial: -1 is not"),
        ("backoff: {initial: -1s}", "backoff.initial: '-1s' is not"),
        ("backoff: {intial: 1s}", "backoff.intial: unknown field; did you mean 'initial'?"),
        ("backoff: {multiplier: 0.5}", "backoff.multiplier: 0.5 is not"),
        ("backoff: {jitter: 0.2}", "backoff.jitter: 0.2 is not"),
        ("backoff: {max: null}", "backoff.max: None is not"),
        ("budget: {max_restarts: -1}", "budget.max_restarts: -1 is not"),
        ("budget: {max_restarts: many}", "budget.max_restarts: 'many' is not"),
        ("budget: {max_duration: 0}", "budget.max_duration: 0 is not"),
        ("budget: {on_exhausted: stop}", "budget.on_exhausted: 'stop' is not"),
        ("ready: {htp: 'http://x/'}", "ready.htp: unknown field; did you mean 'http'?"),
        ("ready: {}", "ready: is empty; give exactly one of http, tcp, log, delay"),
        ("ready: {timeout: 1s}", "ready: is empty; give exactly one of http, tcp, log, delay"),
        ("ready: {log: a, delay: 1s}",
         "ready: log and delay are given together; give exactly one of http, tcp, log, delay"),
        ("ready: {http: 'https://x/'}", "ready.http: 'https://x/' is not"),
        ("ready: {http: [1]}", "ready.http: [1] is not"),
        ("ready: {tcp: 9000}", "ready.tcp: 9000 is not"),
        ("ready: {log: ''}", "ready.log: '' is not"),
        ("ready: {log: '**'}", "ready.log: '**' is not"),
        ("ready: {log: [up]}", "ready.log: ['up'] is not"),
        ("ready: {delay: 1m}", "ready.timeout: 30.0 is not"),
        ("ready: {delay: 1s, timeout: 1s}", "ready.timeout: 1.0 is not"),
        ("ready: soon", "ready: 'soon' is not"),
        ("alive: {log: a}", "alive.log: unknown field"),
        ("alive: {tcp: 'a:1', failures: 0}", "alive.failures: 0 is not"),
        ("alive: {tcp: 'a:1', every: 0}", "alive.every: 0 is not"),
        ("limits: {memory: lots}", "limits.memory: 'lots' is not"),
        ("limits: {memory: 0}", "limits.memory: 0 is not"),
        ("limits: {files: 1.5}", "limits.files: 1.5 is not"),
        ("limits: {cpu: 10ms}", "limits.cpu: '10ms' is not"),
        ("limits: {cpus: 1}", "limits.cpus: unknown field; did you mean 'cpu'?"),
        ("cwd: ''", "cwd: '' is not"),
        ("cwd: [a]", "cwd: ['a'] is not"),
        ("env: hunter2", "env: '…' is not"),
        ("env: [TOKEN=hunter2]", "env: '…' is not"),
        ("env:", "env: '…' is not"),
        ("env: {A: [hunter2]}", "env.A: '…' is not"),
        ("env: {A: {b: hunter2}}", "env.A: '…' is not"),
        ('env: {A: "hunter2\\0"}', "env.A: '…' is not"),
        ("env: {A=hunter2: 1}", "env: 'A=…' is not"),
        ("env: {A=hunter2}", "env: 'A=…' is not"),
        ("env: {A=hunter2: [1]}", "env: 'A=…' is not"),
        ("env: {A=hunter2: 1, A=hunter2: 2}", "'env.A=…' given twice, first on line 4"),
        ("env: {'': 1}", "env: '' is not"),
        ("group: [shop]", "group: ['shop'] is not"),
        ("group: shop", "group: 'shop' is not"),
        ("group: web", "group: 'web' is a service, not a group"),
    ],
)  # fmt: skip
def test_fields_that_are_wrong(added: str, says: str) -> None:
    assert fault(f"{SERVICE}{added}\n") == f"a.yaml:4: {says}"


@pytest.mark.parametrize(
    ("run", "says"),
    [
        ("run:", "3: run: missing"),
        ("cwd: /", "1: run: missing"),
        ("run: sleep 5", "3: run: 'sleep 5' is not"),
        ("run: {}", "3: run: is empty; give exactly one of process, function, container"),
        ("run:\n  proces: [a]", "4: run.proces: unknown field; did you mean 'process'?"),
        ("run: {process: [a], function: 'a:b'}", "3: run: process and function are given together; give"),
        ("run: {process: sleep 5}", "3: run.process: 'sleep 5' is not"),
        ("run: {process: []}", "3: run.process: [] is not"),
        ("run: {process: null}", "3: run: is empty; give"),
        ("run: {process: ['', a]}", "3: run.process: '' is not"),
        ("run:\n  process:\n  - a\n  - [b]", "6: run.process[1]: ['b'] is not"),
        ("run: {process: [a, ~]}", "3: run.process[1]: None is not"),
        ('run: {process: [a, "b\\0"]}', "3: run.process[1]: 'b\\x00' is not"),
        ("run: {function: tick}", "3: run.function: 'tick' is not"),
        ("run: {function: 'a b:c'}", "3: run.function: 'a b:c' is not"),
        ("run: {function: 'a:'}", "3: run.function: 'a:' is not"),
        ("run: {function: [a]}", "3: run.function: ['a'] is not"),
        ("run: {container: [a]}", "3: run.container: ['a'] is not"),
        ("run: {container: {}}", "3: run.container.image: missing"),
        ("run: {container: {image: null}}", "3: run.container.image: missing"),
        ("run: {container: ' '}", "3: run.container.image: ' ' is not"),
        ("run: {container: {image: a, usr: b}}", "3: run.container.usr: unknown field; did you mean 'user'?"),
        ("run: {container: {image: a, ports: [a]}}", "3: run.container.ports[0]: 'a' is not"),
        ("run: {container: {image: a, ports: ['x:80']}}", "3: run.container.ports[0]: 'x:80' is not"),
        ("run: {container: {image: a, volumes: ['a:b']}}", "3: run.container.volumes[0]: 'a:b' is not"),
        ("run: {container: {image: a, network: ''}}", "3: run.container.network: '' is not"),
        ("run: {container: {image: a, ports: 80}}", "3: run.container.ports: 80 is not"),
        ("run: {container: {image: a, command: go}}", "3: run.container.command: 'go' is not"),
        ("run: {container: {image: a, cpus: 0}}", "3: run.container.cpus: 0 is not"),
        ("run: {container: {image: a, memory: 5 apples}}", "3: run.container.memory: '5 apples' is not"),
        ("run: {container: a}\nlimits: {files: 1}", "4: limits: cannot be combined with run.container"),
    ],
)  # fmt: skip
def test_ways_to_run_that_are_none(run: str, says: str) -> None:
    assert fault(f"kind: Service\nid: web\n{run}\n").startswith(f"a.yaml:{says}")


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("restart: never", "a.yaml:1: id: missing"),
        ("id:", "a.yaml:2: id: missing"),
        ("id: a b", "a.yaml:2: id: 'a b' is not"),
        ("id: a/b", "a.yaml:2: id: 'a/b' is not"),
        ("id: -1", "a.yaml:2: id: -1 is not"),
        ("id: [a]", "a.yaml:2: id: ['a'] is not"),
        ("id: latest", "a.yaml:2: id: 'latest' is not"),
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
alive: {http: 'http://x/', tcp: 'y:1'}
limits: {memory: lots, files: -1}
---
kind: Group
id: web
strategy: all
""")
    put("kind: Group\nid: shop\n---\nkind: Service\nid: shop\n", "b.yaml")
    assert refused("a.yaml", "b.yaml") == [
        "15 faults in 2 files",
        "a.yaml:3: group: 'shp' is not",
        "a.yaml:4: run.proces: unknown field; did you mean 'process'?",
        "a.yaml:5: restart: 'sometimes' is not",
        "a.yaml:6: backoff.intial: unknown field; did you mean 'initial'?",
        "a.yaml:6: backoff.initial: -1 is not",
        "a.yaml:6: backoff.multiplier: 0 is not",
        "a.yaml:7: ready.htp: unknown field; did you mean 'http'?",
        "a.yaml:7: ready.timeout: 'soon' is not",
        "a.yaml:8: alive: http and tcp are given together; give exactly one of http, tcp",
        "a.yaml:9: limits.memory: 'lots' is not",
        "a.yaml:9: limits.files: -1 is not",
        "a.yaml:12: id: 'web' is declared twice, first at a.yaml:2",
        "a.yaml:13: strategy: 'all' is not",
        "b.yaml:4: run: missing",
        "b.yaml:5: id: 'shop' is declared twice, first at b.yaml:2",
    ]


def test_names_are_unique_over_all_files_and_groups() -> None:
    put("kind: Group\nid: one\n---\nkind: Group\nid: two\n")
    put(SERVICE + "group: one\n", "b.yaml")
    put("\n" + SERVICE + "group: two\n", "c.yaml")
    assert refused("a.yaml", "b.yaml", "c.yaml") == ["c.yaml:3: id: 'web' is declared twice, first at b.yaml:2"]
    assert refused("c.yaml", "b.yaml", "a.yaml") == ["b.yaml:2: id: 'web' is declared twice, first at c.yaml:3"]


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
    assert fault("kind: Group\nid: g\nstrategy: x\n---\n" + SERVICE + "group: g") == ("a.yaml:3: strategy: 'x' is not")


def test_a_group_that_may_be_in_what_could_not_be_read_is_not_missed() -> None:
    put(SERVICE + "group: g\n")
    assert refused("a.yaml", "gone.yaml") == ["gone.yaml: cannot be read (No such file or directory)"]
    put(SERVICE + "group: g\n---\nkind: Grup\nid: g\n")
    assert refused("a.yaml") == ["a.yaml:6: kind: 'Grup' is unknown"]
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
