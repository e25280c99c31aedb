"""A receiver of the checks' own: it keeps whole requests, with the headers that they came with."""
import gzip
import http.server
import ssl
import threading

from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from spans import check_flags, of_proto


class Sink:
    """What has arrived, by whichever line."""

    def __init__(self):
        self.lock = threading.Lock()
        self.traces, self.metrics, self.headers = [], [], []

    def take(self, request, headers):
        kept = self.traces if isinstance(request, ExportTraceServiceRequest) else self.metrics
        with self.lock:
            kept.append(request)
            self.headers.append({name.lower(): value for name, value in headers})

    def resource_spans(self):
        with self.lock:
            return [part for request in self.traces for part in request.resource_spans]

    def resource_metrics(self):
        with self.lock:
            return [part for request in self.metrics for part in request.resource_metrics]

    def spans(self):
        """All spans, in the form in which they are compared."""
        each = [span for part in self.resource_spans() for scope in part.scope_spans for span in scope.spans]
        for span in each:
            check_flags(span)
        return [of_proto(span) for span in each]


class HttpSink(Sink):
    """Listens on loopback; with the files of a certificate and its key over TLS."""

    def __init__(self, certificate=None):
        super().__init__()
        handler = type("Handler", (Handler,), {"sink": self})
        self.listener = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
        self.listener.daemon_threads = True
        if certificate:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(*certificate)
            # The handshake belongs to the connection's own thread: one that fails must not stop the others.
            self.listener.socket = context.wrap_socket(self.listener.socket, server_side=True, do_handshake_on_connect=False)
        threading.Thread(target=self.listener.serve_forever, daemon=True).start()
        self.port = self.listener.server_port


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    sink = None
    kinds = {"/v1/traces": ExportTraceServiceRequest, "/v1/metrics": ExportMetricsServiceRequest}

    def do_POST(self):
        body = self.rfile.read(int(self.headers.get("content-length", 0)))
        if self.headers.get("content-encoding") == "gzip":
            body = gzip.decompress(body)
        kind = self.kinds.get(self.path)
        if kind and self.headers.get("content-type") == "application/x-protobuf":
            self.sink.take(kind.FromString(body), self.headers.items())
            self.send_response(200)
        else:
            self.send_response(415 if kind else 404)
        self.send_header("content-type", "application/x-protobuf")
        self.send_header("content-length", "0")
        self.end_headers()

    def handle(self):
        try:
            super().handle()
        except OSError:
            # No handshake, or the other side is gone.
            self.close_connection = True

    def log_message(self, *_):
        pass
