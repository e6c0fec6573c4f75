"""One PostgreSQL server and one cluster for the tests of this folder, which leave both up."""

from collections.abc import Iterator

import pytest

from tests.cluster.nodes import Cluster, cluster
from tests.helpers.postgres import Server, own_server


@pytest.fixture(scope="session")
def postgres() -> Iterator[Server]:
    with own_server() as found:
        yield found


@pytest.fixture(scope="session")
def two_nodes(postgres: Server) -> Iterator[Cluster]:
    with cluster(postgres.url, "a", "b") as found:
        yield found
