"""The same receiver over gRPC, with TLS."""
import os
from concurrent import futures

# It logs each handshake that fails, and some are to fail.
os.environ.setdefault("GRPC_VERBOSITY", "NONE")

import grpc
from opentelemetry.proto.collector.metrics.v1 import metrics_service_pb2, metrics_service_pb2_grpc
from opentelemetry.proto.collector.trace.v1 import trace_service_pb2, trace_service_pb2_grpc

from place import free_port
from sink import Sink


class GrpcSink(Sink):
    """Listens on loopback with the files of a certificate and its key."""

    def __init__(self, certificate):
        super().__init__()
        chain, key = (read(path) for path in certificate)
        self.listener = grpc.server(futures.ThreadPoolExecutor(max_workers=4))
        trace_service_pb2_grpc.add_TraceServiceServicer_to_server(Traces(self), self.listener)
        metrics_service_pb2_grpc.add_MetricsServiceServicer_to_server(Metrics(self), self.listener)
        self.port = free_port()
        self.listener.add_secure_port(f"localhost:{self.port}", grpc.ssl_server_credentials([(key, chain)]))
        self.listener.start()


class Traces(trace_service_pb2_grpc.TraceServiceServicer):
    def __init__(self, sink):
        self.sink = sink

    def Export(self, request, context):
        self.sink.take(request, context.invocation_metadata())
        return trace_service_pb2.ExportTraceServiceResponse()


class Metrics(metrics_service_pb2_grpc.MetricsServiceServicer):
    def __init__(self, sink):
        self.sink = sink

    def Export(self, request, context):
        self.sink.take(request, context.invocation_metadata())
        return metrics_service_pb2.ExportMetricsServiceResponse()


def read(path):
    with open(path, "rb") as file:
        return file.read()
