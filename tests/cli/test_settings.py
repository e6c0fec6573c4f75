"""Which value of a setting counts, where it came from, and what is said of a wrong one."""

import hashlib
import os
from pathlib import Path
from typing import Any

import pytest

from interlock.config import Resolved, Settings, Token, resolve
from interlock.config.plain_yaml import LARGEST
from interlock.config.settings import DEFAULTS, SETTINGS, variable_of
from interlock.error import InterlockError
from interlock.model.access import Caller, Grant, Role

SECRET = "a-secret-of-some-length"


@pytest.fixture(autouse=True)
def _in_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in [name for name in os.environ if name.startswith("INTERLOCK_")]:
        monkeypatch.delenv(name)


def written(text: str, flags: dict[str, Any] | None = None, **environment: str) -> Resolved:
    Path("interlock.yaml").write_text(text)
    return resolve(flags, None, environment)


def refused(text: str | bytes) -> str:
    Path("interlock.yaml").write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(InterlockError) as caught:
        resolve({}, None, {})
    assert caught.value.code in ("bad_config", "bad_value", "bad_duration")
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_without_anything_the_defaults_count() -> None:
    found = resolve({}, None, {})
    assert found.settings == Settings(lanes={})
    assert set(found.sources.values()) == {"default"}
    assert found.file is None


def test_flags_win_over_the_environment_over_the_file() -> None:
    text = "slots: 1\nworkers: 1\nprocesses: 1\n"
    environment = {"INTERLOCK_SLOTS": "2", "INTERLOCK_WORKERS": "2"}
    found = written(text, {"slots": "3", "workers": None}, **environment)
    settings = found.settings
    assert (settings.slots, settings.workers, settings.processes) == (3, 2, 1)
    assert found.sources["slots"] == "flag --slots"
    assert found.sources["workers"] == "INTERLOCK_WORKERS"
    assert found.sources["processes"] == "interlock.yaml:3"
    assert found.sources["drain"] == "default"


@pytest.mark.behaviour("POL-11")
def test_the_fail_mode_has_a_variable_of_its_own() -> None:
    name, text = "policy_check_fail_mode", "policy_check_fail_mode: open\n"
    for environment, mode, source in (
        ({}, "open", "interlock.yaml:1"),
        ({"POLICY_CHECK_FAIL_MODE": ""}, "open", "interlock.yaml:1"),
        ({"POLICY_CHECK_FAIL_MODE": "closed"}, "closed", "POLICY_CHECK_FAIL_MODE"),
        (
            {"POLICY_CHECK_FAIL_MODE": "closed", "INTERLOCK_POLICY_CHECK_FAIL_MODE": "open"},
            "closed",
            "POLICY_CHECK_FAIL_MODE",
        ),
        ({"INTERLOCK_POLICY_CHECK_FAIL_MODE": "closed"}, "closed", "INTERLOCK_POLICY_CHECK_FAIL_MODE"),
    ):
        found = written(text, None, **environment)
        assert (found.settings.policy_check_fail_mode, found.sources[name]) == (mode, source)
    with pytest.raises(InterlockError, match=r"^POLICY_CHECK_FAIL_MODE: 'ajar' is not one of closed, open$"):
        written("", None, POLICY_CHECK_FAIL_MODE="ajar")


def test_each_lane_has_its_own_source() -> None:
    text = "lanes:\n  main: 1\n  gpu: 1\n  night: 1\n"
    found = written(text, {"lanes": ["night=3", "cron=4"]}, INTERLOCK_LANE_GPU="2")
    assert found.settings.lanes == {"main": 1, "gpu": 2, "night": 3, "cron": 4}
    assert {name: source for name, source in found.sources.items() if name.startswith("lanes.")} == {
        "lanes.main": "interlock.yaml:2",
        "lanes.gpu": "INTERLOCK_LANE_GPU",
        "lanes.night": "flag --lane night",
        "lanes.cron": "flag --lane cron",
        "lanes.subagent": "default",
        "lanes.team": "default",
    }


@pytest.mark.parametrize("by", ["argument", "environment"])
def test_the_file_may_be_elsewhere(by: str) -> None:
    Path("interlock.yaml").write_text("slots: 1\n")
    Path("other.yaml").write_text("slots: 2\n")
    if by == "argument":
        found = resolve({}, "other.yaml", {"INTERLOCK_CONFIG": "interlock.yaml"})
    else:
        found = resolve({}, None, {"INTERLOCK_CONFIG": "other.yaml"})
    assert (found.settings.slots, found.sources["slots"], found.file) == (2, "other.yaml:1", "other.yaml")


def test_every_setting_can_be_written_in_the_file_and_in_the_environment() -> None:
    examples = {
        "app": ("jobs:app", "jobs:app"),
        "files": ("services.yaml, more", ["services.yaml", "more"]),
        "strict": ("true", True),
        "watch": ("True", True),
        "dev": ("true", True),
        "database": ("data.db", "data.db"),
        "socket": ("/run/x.sock", "/run/x.sock"),
        "http": ("0.0.0.0:80", "0.0.0.0:80"),
        "listen_workers": ("0.0.0.0:8421", "0.0.0.0:8421"),
        "worker_cert": ("/etc/w.crt", "/etc/w.crt"),
        "worker_key": ("/etc/w.key", "/etc/w.key"),
        "nodes": ("a:8421, b:8421", ["a:8421", "b:8421"]),
        "roles": ("gateway, worker", ["gateway", "worker"]),
        "node_name": ("a", "a"),
        "ca": ("/etc/ca.pem", "/etc/ca.pem"),
        "fingerprint": ("sha256:" + "0" * 64, "sha256:" + "0" * 64),
        "worker_token": ("worker-0123456789abcdef", "worker-0123456789abcdef"),
        "worker_token_file": ("/etc/worker.token", "/etc/worker.token"),
        "gateway_token": ("gateway-0123456789abcdef", "gateway-0123456789abcdef"),
        "gateway_token_file": ("/etc/gateway.token", "/etc/gateway.token"),
        "workers": ("3", 3),
        "slots": ("5", 5),
        "processes": ("6", 6),
        "pool": ("gpu", "gpu"),
        "worker_labels": ("region=eu, zone=a", {"region": "eu", "zone": "a"}),
        "capabilities": ("cuda, ssd", ["cuda", "ssd"]),
        "heartbeat": ("500ms", 0.5),
        "missed_heartbeats": ("5", 5),
        "sweep_interval": ("5s", 5.0),
        "drain": ("2m", 120.0),
        "keep_workers": ("true", True),
        "memory_limit": ("1.5GiB", 3 * 2**29),
        "lifespan_timeout": ("90s", 90.0),
        "log_level": ("info", "info"),
        "log_format": ("json", "json"),
        "echo": ("true", True),
        "origins": ("https://one.example,https://two.example:444", ["https://one.example", "https://two.example:444"]),
        "hosts": ("one.example, two", ["one.example", "two"]),
        "webhook_allow": ("10.0.0.1, two", ["10.0.0.1", "two"]),
        "policy_service": ("policy.example:50051", "policy.example:50051"),
        "policy_check_fail_mode": ("open", "open"),
        "approval_timeout": ("1h", 3600.0),
        "max_body": ("64kB", 64000),
        "max_connections": ("9", 9),
        "request_timeout": ("1h", 3600.0),
        "secret_names": ("pin", ["pin"]),
        "log_lines": ("0", 0),
        "log_bytes": ("2048", 2048),
        "prerun": ("30s", 30.0),
        "keep_runs": ("0", 0),
        "keep_for": ("12h", 43200.0),
        "keep_runs_total": ("7", 7),
        "keep_keys": ("1d", 86400.0),
        "keep_dead_letters": ("7d", 604800.0),
    }
    assert set(examples) == set(SETTINGS) - {"lanes", "tokens", "sessions"}
    for name, (text, value) in examples.items():
        assert value != DEFAULTS[name]
        found = resolve({}, None, {variable_of(name): text})
        assert getattr(found.settings, name) == value
        assert found.sources[name] == variable_of(name)
        in_file = (
            [f"'{one}'" for one in value] if isinstance(value, list) else value if isinstance(value, dict) else text
        )
        found = written(f"\n\n{name}: {in_file}\n".replace('"', ""))
        assert getattr(found.settings, name) == value
        assert found.sources[name] == "interlock.yaml:3"


def test_a_setting_that_is_true_or_false() -> None:
    assert resolve({"strict": True}, None, {}).settings.strict
    assert resolve({"strict": True}, None, {}).sources["strict"] == "flag --strict"
    assert resolve({"strict": None}, None, {"INTERLOCK_STRICT": "0"}).settings.strict is False
    with pytest.raises(InterlockError, match=r"^INTERLOCK_WATCH: 'often' is not true or false$"):
        resolve({}, None, {"INTERLOCK_WATCH": "often"})
    with pytest.raises(InterlockError, match=r"^interlock.yaml:1: watch: 1 is not true or false$"):
        written("watch: 1\n")


def test_words_that_other_yaml_takes_for_truth_values_are_text() -> None:
    assert written("http: off\n").settings.http == "off"
    assert written("app: no\n").settings.app == "no"


def test_tokens(monkeypatch: pytest.MonkeyPatch) -> None:
    digests = [hashlib.sha256(text.encode()).hexdigest() for text in ("another secret", SECRET)]
    text = f"""
tokens:
  - {{name: one, role: viewer, sha256: {digests[0]}}}
  - {{name: two, role: operator, tenant: acme, token: {SECRET}}}
  - {{name: three, role: admin, tenant: "*", env: INTERLOCK_TOKEN_OF_THREE}}
"""
    tokens = written(text, None, INTERLOCK_TOKEN_OF_THREE=SECRET).settings.tokens
    monkeypatch.setenv("INTERLOCK_TOKEN_OF_THREE", SECRET)
    assert [token.grant() for token in tokens] == [
        Grant(bytes.fromhex(digests[0]), Caller("one", Role.VIEWER, "default")),
        Grant(bytes.fromhex(digests[1]), Caller("two", Role.OPERATOR, "acme")),
        Grant(bytes.fromhex(digests[1]), Caller("three", Role.ADMIN, "*")),
    ]


@pytest.mark.parametrize("value", [None, "", "short", "with a space in between"])
def test_a_variable_that_should_have_a_token(monkeypatch: pytest.MonkeyPatch, value: str | None) -> None:
    if value is not None:
        monkeypatch.setenv("THE_TOKEN", value)
    with pytest.raises(InterlockError, match="tokens: ci: env: 'THE_TOKEN' is not "):
        Token(name="ci", role=Role.VIEWER, env="THE_TOKEN").grant()


@pytest.mark.parametrize(
    ("entry", "says"),
    [
        ("name: a", "tokens[0]: role is missing"),
        ("role: admin", "tokens[0]: name is missing"),
        ("{name: a, role: admin}", "exactly one of sha256, token and env"),
        (f"{{name: a, role: admin, token: {SECRET}, env: X}}", "exactly one of sha256, token and env"),
        ("{name: a, role: boss, env: X}", "tokens[0].role: 'boss' is not one of viewer, operator, approver, admin"),
        ("{name: a, rol: admin, env: X}", "'rol' is not a field of a token; did you mean 'role'?"),
        ("{name: a b, role: admin, env: X}", "tokens[0].name: 'a b' is not a name"),
        ("{name: a, role: admin, tenant: 'a b', env: X}", "tokens[0].tenant: 'a b' is not a tenant's name"),
        ("{name: a, role: admin, sha256: abc}", "tokens[0].sha256: '…' is not 64 hexadecimal digits"),
        ("{name: a, role: admin, token: short}", "tokens[0].token: '…' is not 16 to 512 printable characters"),
        ("{name: a, role: admin, env: 5}", "tokens[0].env: 5 is not the name of an environment variable"),
        ("text", "tokens[0]: '…' is not a mapping with name, role"),
    ],
)
def test_tokens_that_are_none(entry: str, says: str) -> None:
    assert refused(f"tokens:\n  - {entry}\n").startswith("interlock.yaml:2: tokens[0]")
    assert says in refused(f"tokens:\n  - {entry}\n")


def test_two_tokens_of_one_name() -> None:
    entry = "{name: a, role: admin, env: X}"
    assert refused(f"tokens:\n- {entry}\n- {entry}\n").startswith("interlock.yaml:3: tokens[1].name: 'a' given twice")


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("slot: 3", "interlock.yaml:1: 'slot' is not a setting; did you mean 'slots'?"),
        ("db: a.db", "interlock.yaml:1: 'db' is not a setting; did you mean 'database'?"),
        ("slots: 3\nzzz: 1", "interlock.yaml:2: 'zzz' is not a setting"),
        ("url: http://x", "interlock.yaml:1: 'url' is not a setting"),
        ("slots: many", "interlock.yaml:1: slots: 'many' is not a whole number from 1 to 100,000"),
        ("slots: 0", "interlock.yaml:1: slots: 0 is not a whole number from 1 to 100,000"),
        ("slots: true", "interlock.yaml:1: slots: True is not a whole number"),
        ("slots: 1.5", "interlock.yaml:1: slots: 1.5 is not a whole number"),
        ("slots: '5'", "interlock.yaml:1: slots: '5' is not a whole number"),
        ("slots:", "interlock.yaml:1: slots: None is not a whole number"),
        ("slots: [1]", "interlock.yaml:1: slots: [1] is not a whole number"),
        ("\n\ndrain: soon", "interlock.yaml:3: drain: 'soon' is not a duration"),
        ("drain: {s: 1}", "interlock.yaml:1: drain: {'s': 1} is not a duration"),
        ("drain: true", "interlock.yaml:1: drain: True is not a duration"),
        ("heartbeat: 0", "interlock.yaml:1: heartbeat: 0 is not a duration from 1ms to 1d"),
        ("max_body: 32 megabytes", "interlock.yaml:1: max_body: '32 megabytes' is not a number of bytes like"),
        (
            "max_body: 1",
            "interlock.yaml:1: max_body: 1 is not a number of bytes like 512KiB or 32MiB, from 1KiB to 1GiB",
        ),
        ("log_level: loud", "interlock.yaml:1: log_level: 'loud' is not one of debug, info, warning, error"),
        ("http: 8420", "interlock.yaml:1: http: 8420 is not 'host:port'"),
        ("http: localhost", "interlock.yaml:1: http: 'localhost' is not 'host:port'"),
        ("http: localhost:99999", "http: 'localhost:99999' is not"),
        ("http: '::1:80'", "http: '::1:80' is not"),
        ("hosts: example.org", "interlock.yaml:1: hosts: 'example.org' is not a list"),
        ("hosts:\n  - a\n  - b/c", "interlock.yaml:3: hosts[1]: 'b/c' is not a host name"),
        ("origins: [example.org]", "origins[0]: 'example.org' is not an origin like https://example.org"),
        ("lanes: [main]", "interlock.yaml:1: lanes: ['main'] is not a mapping"),
        ("lanes:\n  main: 1\n  gpu: none", "interlock.yaml:3: lanes.gpu: 'none' is not a whole number"),
        ("lanes: {a b: 1}", "lanes: 'a b' is not a lane's name"),
        ("tokens: {}", "interlock.yaml:1: tokens: '…' is not a list of tokens"),
        ("slots: 1\nworkers: 2\nslots: 3", "interlock.yaml:3: 'slots' given twice, first on line 1"),
        ("lanes:\n  a: 1\n  a: 2", "interlock.yaml:3: 'lanes.a' given twice, first on line 2"),
        ("slots: &x 1", "interlock.yaml:1: anchors and aliases ('&', '*')"),
        ("slots: 1\nworkers: *x", "interlock.yaml:2: anchors and aliases"),
        (
            "secret_names:\n- a\n- *pin*",
            "interlock.yaml:3: anchors and aliases ('&', '*')",
        ),
        ("slots: !!python/object/apply:os.system [ls]", "interlock.yaml:1: tags like"),
        ("slots: !!str 5", "interlock.yaml:1: tags like"),
        ("slots: [1\nworkers: 2", "interlock.yaml:2: not valid YAML ("),
        ("slots: 1\n\tworkers: 2", "interlock.yaml:2: not valid YAML ("),
        ("slots: \x01", "interlock.yaml: not valid YAML ("),
        ("slots: 1\n---\nslots: 2", "interlock.yaml:2: a second document"),
        ("[slots, 1]", "interlock.yaml:1: settings are written as 'name: value'"),
        ("just text", "interlock.yaml:1: settings are written as 'name: value'"),
        ("? [a]\n: 1", "interlock.yaml:1: a name must be text"),
        ("slots: " + "[" * 50 + "]" * 50, "interlock.yaml:1: nested more than 20 deep"),
        (b"slots: 1\nworkers: \xff", "interlock.yaml:2: not UTF-8 text"),
        ("#" * (LARGEST + 1), "interlock.yaml: larger than 1,000,000 bytes"),
    ],
)
def test_files_that_are_wrong(text: str | bytes, says: str) -> None:
    assert says in refused(text)


@pytest.mark.parametrize("text", ["", "# slots: 5\n", "\n\n"])
def test_a_file_without_a_setting_is_a_file_all_the_same(text: str) -> None:
    Path("interlock.yaml").write_text(text)
    found = resolve({}, None, {})
    assert (
        found.settings == resolve({}, None, {"INTERLOCK_CONFIG": ""}).settings == Settings(lanes=found.settings.lanes)
    )
    assert found.file == "interlock.yaml"


def test_a_deeply_nested_file_of_the_largest_size_is_refused() -> None:
    assert "nested" in refused("slots: " + "[" * (LARGEST - 10))


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: None, "gone.yaml: cannot be read (No such file or directory)"),
        (lambda: Path("gone.yaml").mkdir(), "gone.yaml: cannot be read (Is a directory)"),
    ],
)
def test_a_file_that_cannot_be_read(make: Any, says: str) -> None:
    make()
    with pytest.raises(InterlockError) as caught:
        resolve({}, "gone.yaml", {})
    assert str(caught.value) == says
    assert caught.value.code == "bad_config"


def test_a_link_to_nowhere_is_not_taken_for_no_file() -> None:
    Path("interlock.yaml").symlink_to("nowhere")
    with pytest.raises(InterlockError, match=r"interlock\.yaml: cannot be read"):
        resolve({}, None, {})


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("INTERLOCK_SLOT", "did you mean 'INTERLOCK_SLOTS'?"),
        ("INTERLOCK_TOKENS", "did you mean 'INTERLOCK_TOKEN'?"),
        ("INTERLOCK_DB", "did you mean 'INTERLOCK_DATABASE'?"),
        ("INTERLOCK_LANE", "each lane has its own: INTERLOCK_LANE_<NAME>"),
        ("INTERLOCK_LANES", "each lane has its own: INTERLOCK_LANE_<NAME>"),
        ("INTERLOCK_HTTP_PORT", ""),
        ("INTERLOCK_QQQ", ""),
    ],
)
def test_a_variable_that_is_no_setting(name: str, hint: str) -> None:
    with pytest.raises(InterlockError) as caught:
        resolve({}, None, {name: "1"})
    assert str(caught.value).startswith(f"{name}: ")
    assert str(caught.value).endswith(hint)
    assert caught.value.code == "bad_config"


@pytest.mark.parametrize("service", ["INTERLOCK", "INTERLOCK_API", "INTERLOCK_SLOTS_2"])
def test_what_kubernetes_sets_is_not_ours(service: str) -> None:
    environment = {
        f"{service}_SERVICE_HOST": "10.0.0.1",
        f"{service}_SERVICE_PORT": "8420",
        f"{service}_SERVICE_PORT_HTTP": "8420",
        f"{service}_PORT": "tcp://10.0.0.1:8420",
        f"{service}_PORT_8420_TCP": "tcp://10.0.0.1:8420",
        f"{service}_PORT_8420_TCP_PROTO": "tcp",
        f"{service}_PORT_8420_TCP_PORT": "8420",
        f"{service}_PORT_8420_TCP_ADDR": "10.0.0.1",
    }
    assert resolve({}, None, environment) == resolve({}, None, {})


@pytest.mark.parametrize("name", ["INTERLOCK_TEST_POSTGRES", "INTERLOCKED"])
def test_variables_that_are_not_ours(name: str) -> None:
    assert resolve({}, None, {name: "1"}) == resolve({}, None, {})


def test_an_empty_variable_is_none_where_there_may_be_none() -> None:
    Path("interlock.yaml").write_text("app: a:b\n")
    names = ("URL", "TOKEN", "APP", "SOCKET", "CONFIG")
    assert resolve({}, None, {f"INTERLOCK_{name}": "" for name in names}) == resolve({}, None, {})


@pytest.mark.parametrize(
    "url", ["http://u:hunter2@h", "http://hunter2@h:1", "http://h/?token=hunter2", "http://h#hunter2"]
)
def test_a_secret_in_the_address_is_refused_and_not_shown(url: str) -> None:
    with pytest.raises(InterlockError, match="INTERLOCK_URL: '…' is not of the form") as caught:
        resolve({}, None, {"INTERLOCK_URL": url})
    assert "hunter2" not in str(caught.value)


def test_two_tokens_with_one_secret() -> None:
    text = f"""\
tokens:
  - {{name: ops, role: admin, token: {SECRET}}}
  - {{name: ci, role: viewer, sha256: {hashlib.sha256(SECRET.encode()).hexdigest()}}}
"""
    said = refused(text)
    assert said.startswith("interlock.yaml:3: tokens[1]: 'ci' ")
    assert said.endswith("'ops'")


@pytest.mark.parametrize(
    ("name", "value", "says"),
    [
        ("INTERLOCK_SLOTS", "", "INTERLOCK_SLOTS: '' is not a whole number"),
        ("INTERLOCK_SLOTS", "1e3", "INTERLOCK_SLOTS: '1e3' is not a whole number"),
        ("INTERLOCK_SLOTS", "9" * 5000, "INTERLOCK_SLOTS: "),
        ("INTERLOCK_DRAIN", "10", "INTERLOCK_DRAIN: '10' is not a duration;"),
        ("INTERLOCK_ORIGINS", "https://a,b", "INTERLOCK_ORIGINS: 'b' is not an origin"),
        ("INTERLOCK_TOKEN", "not shown", "INTERLOCK_TOKEN: '…' is not text of printable characters"),
    ],
)
def test_variables_with_a_wrong_value(name: str, value: str, says: str) -> None:
    with pytest.raises(InterlockError) as caught:
        resolve({}, None, {name: value})
    assert str(caught.value).startswith(says)
    assert "\n" not in str(caught.value)


def test_a_program_may_write_durations_and_sizes_the_same_way() -> None:
    settings = Settings(heartbeat="250ms", max_body="1MiB")  # type: ignore[arg-type]
    assert (settings.heartbeat, settings.max_body) == (0.25, 2**20)


@pytest.mark.parametrize(
    ("database", "socket", "http"),
    [
        ("a/x.db", None, "a/x.db.http"),
        (":memory:", None, "interlock.http"),
        ("x.db", "s/door.sock", "s/door.http"),
        ("x.db", "s/door", "s/door.http"),
        ("x.db", "s.d/door.socket", "s.d/door.socket.http"),
    ],
)
def test_where_http_is_served_beside_the_socket(database: str, socket: str | None, http: str) -> None:
    assert Settings(database=database, socket=socket).http_socket_path() == Path(http).absolute()


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("127.0.0.1:8420", ("127.0.0.1", 8420)),
        ("[::1]:80", ("::1", 80)),
        ("example.org:0", ("example.org", 0)),
        ("off", None),
        ("local", None),
    ],
)
def test_addresses(text: str, address: tuple[str, int] | None) -> None:
    assert Settings(http=text).http_address() == address
