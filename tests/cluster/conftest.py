"""One PostgreSQL server and one cluster for the tests of this folder, which leave every node up."""

from collections.abc import Iterator

import pytest

from tests.cluster.nodes import Cluster, cluster
from tests.helpers.postgres import server


@pytest.fixture(scope="session")
def two_nodes() -> Iterator[Cluster]:
    with server() as url, cluster(url, "a", "b") as found:
        yield found
