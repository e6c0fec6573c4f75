"""A pool: workers that take the runs of some topics."""

from enum import StrEnum
from typing import Annotated

from interlock.model.doc import doc
from interlock.model.field import Checked
from interlock.model.field_types import Texts, Word
from interlock.model.job import TAGS, Tags
from interlock.model.output import GLOBS

DEFAULT_POOL = "default"  # the pool of a worker that names none
EVERYTHING = "*"  # a topic or a capability that stands for all
OFFERS = Texts(Word(r"\*|[A-Za-z0-9_][A-Za-z0-9_.:/-]{0,63}", "a capability, or '*' for all"), make=tuple)


class PoolStatus(StrEnum):
    ACTIVE = "active"
    DRAINING = "draining"  # its workers finish what they have
    INACTIVE = "inactive"


class Lack(StrEnum):
    """Why no worker can take a run, however long it waits for others to end."""

    NO_POOL_MAPPING = "no_pool_mapping"  # no active pool takes its topic
    NO_WORKERS = "no_workers"  # no connected worker fits
    POOL_OVERLOADED = "pool_overloaded"  # those that fit have none of our runs, and are busy all the same


class PoolSpec(Checked, frozen=True, kw_only=True):
    topics: Annotated[Tags, doc("Topics of the runs that it takes; `*` stands for any text."), GLOBS] = ()
    offers: Annotated[Tags, doc("Capabilities that each of its workers has; `*` stands for all."), OFFERS] = ()
    requires: Annotated[Tags, doc("Capabilities that a worker must announce to join it."), TAGS] = ()
    status: Annotated[PoolStatus, doc("`active`, `draining` or `inactive`.")] = PoolStatus.ACTIVE


ONE_POOL = PoolSpec(topics=(EVERYTHING,), offers=(EVERYTHING,))
"""what every pool is while none is declared: workers for everything"""
