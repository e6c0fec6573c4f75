"""Second tries. A test gets one only if it depends on the speed of the machine, and says how.

`@pytest.mark.machine_speed("reason")` marks such a test. `pytest --last-failed --second-try` tries those that failed
again, and refuses to if any other test has failed.
"""

import pytest

NEVER = {"simulation", "chaos", "crash", "contract", "core"}
"""folders whose tests have no second try: what fails there now and then is a defect"""


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--second-try", action="store_true", help="refuse if a test failed that is not `machine_speed`")


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    faults = [fault for item in items if (fault := _fault(item)) is not None]
    if config.getoption("--second-try"):
        assert config.cache is not None
        failed = config.cache.get("cache/lastfailed", {})
        unmarked = (one.nodeid for one in items if one.get_closest_marker("machine_speed") is None)
        faults += [f"{one}: failed, and has no second try" for one in unmarked if one in failed]
    if faults:
        raise pytest.UsageError("\n".join(faults))


def _fault(item: pytest.Item) -> str | None:
    marker = item.get_closest_marker("machine_speed")
    if marker is None:
        return None
    if folders := NEVER.intersection(item.nodeid.split("/")[:-1]):
        return f"{item.nodeid}: machine_speed is not for tests in {', '.join(folders)}"
    is_reasoned = not marker.kwargs and len(marker.args) == 1 and str(marker.args[0]).strip()
    return None if is_reasoned else f"{item.nodeid}: machine_speed needs a reason"
