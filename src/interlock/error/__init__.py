"""Every error Interlock raises. Each class declares its code, HTTP status, exit code and meaning; the gateway, the
command line, the clients and the reference read them from there."""

from interlock.error.base import *  # noqa: F403 - one place to import errors from
from interlock.error.http import *  # noqa: F403 - as above
from interlock.error.storage import *  # noqa: F403 - as above
from interlock.error.value import *  # noqa: F403 - as above
from interlock.error.work import *  # noqa: F403 - as above
