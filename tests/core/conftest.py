"""The machine that most tests begin with."""

import pytest

from tests.core.machine import Machine


@pytest.fixture
def machine() -> Machine:
    return Machine()


@pytest.fixture
def m(machine: Machine) -> Machine:
    return machine
