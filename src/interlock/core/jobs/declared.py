"""The jobs that files declare."""

import msgspec


class DeclaredJobs(msgspec.Struct):
    versions: dict[str, str] = {}  # job declared at each start → version, in order
    sources: dict[str, str] = {}  # declared job → place of its declaration
