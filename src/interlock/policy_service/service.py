"""The gRPC service as `policy.proto` describes it: calls for a client, handlers for a server."""

from typing import Any

import grpc
from google.protobuf.message_factory import GetMessageClass

from interlock.policy_service import policy_pb2 as wire

SERVICE = wire.DESCRIPTOR.services_by_name["PolicyService"]
NAME: str = SERVICE.full_name


def _kind(method: Any) -> str:
    return "stream_stream" if method.client_streaming else "unary_unary"


class PolicyServiceStub:
    """The methods of the service, on a channel of gRPC or of its asyncio."""

    def __init__(self, channel: Any) -> None:
        for method in SERVICE.methods:
            call = getattr(channel, _kind(method))(
                f"/{NAME}/{method.name}",
                request_serializer=GetMessageClass(method.input_type).SerializeToString,
                response_deserializer=GetMessageClass(method.output_type).FromString,
            )
            setattr(self, method.name, call)

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(f"{NAME} has no method {name!r}")


def add_service(service: object, server: Any) -> None:
    """Serve the methods that `service` has."""
    handlers = {
        method.name: getattr(grpc, f"{_kind(method)}_rpc_method_handler")(
            getattr(service, method.name),
            request_deserializer=GetMessageClass(method.input_type).FromString,
            response_serializer=GetMessageClass(method.output_type).SerializeToString,
        )
        for method in SERVICE.methods
        if hasattr(service, method.name)
    }
    server.add_registered_method_handlers(NAME, handlers)
