"""Where adapters meet the engine: a scheduler, a worker, a gateway, a client, put together from their parts.

`interlock up` is a supervision tree, and users' services are a branch of it (`scheduler.py: _children`):

    interlock                 starts from top to bottom, stops from bottom to top
    ├─ gateway                process      HTTP, metrics
    ├─ sending                supervisor   helpers, each a process from its first use on
    │  ├─ sender              process      webhooks and hooks
    │  └─ inspector           process      scans results; has a process below it that runs the scanners
    ├─ engine                 function     everything ends with it
    ├─ services               supervisor   users' services; started once the rest is up
    ├─ workers                supervisor   worker processes, all stopped at the same time
    ├─ policy                 function     looks at the digest of the policy service, if one is set
    ├─ housekeeping           function     prunes runs, keys and the output of services
    ├─ sweeps                 function     looks for runs that the scheduler has missed
    └─ watch                  function     reloads changed files, with `--watch` or `--dev`

A stop refuses new work first; workers drain and end; services stop in reverse order; the engine stores what has
arrived, including the last output of services; the gateway goes last, so that people and metrics see all of it.
"""

from interlock.runtime import require_linux

# No server or worker gets past this package.
require_linux()
