"""The policy as a service over gRPC, and the client that a scheduler asks it with. Both need `interlock[grpc]`."""
