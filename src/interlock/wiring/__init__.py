"""Where adapters meet the engine: a scheduler, a worker, a gateway, a client, put together from their parts."""

from interlock.runtime import require_linux

# No server or worker gets past this package.
require_linux()
