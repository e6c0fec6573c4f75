"""Where adapters meet the engine: a scheduler, a worker, a gateway, a client, put together from their parts."""
