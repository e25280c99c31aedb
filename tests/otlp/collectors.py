"""The real receivers: oteltap, and rotel. Each hands on what it got to a sink of ours, so that nothing of it is hidden."""
import importlib.util
import json
import os
import sys

from place import answers, check, end, free_port, until
from spans import of_json

HERE = os.path.dirname(os.path.abspath(__file__))


class Tap:
    """oteltap: OTLP over HTTP. It also prints what it got, in its own words."""

    def __init__(self, place, sink):
        self.place, self.sink, self.port = place, sink, free_port()
        self.process = None

    def start(self):
        command = [sys.executable, f"{HERE}/tap.py", str(self.port), f"http://127.0.0.1:{self.sink.port}"]
        self.process = self.place.run("oteltap", command)
        until("oteltap", lambda: answers(self.port))

    def lines(self):
        """What it printed, line by line; the last one may not be whole yet."""
        texts = self.place.log("oteltap").split("\n")[:-1]
        return [json.loads(text) for text in texts if text.startswith("{")]

    def printed_spans(self):
        return [of_json(line) for line in self.lines() if "spanId" in line]

    def printed_metrics(self):
        """The names of the metrics that it printed."""
        return {line["name"] for line in self.lines() if "spanId" not in line}


class Rotel:
    """rotel: OTLP over gRPC and HTTP."""

    def __init__(self, place, sink):
        self.place, self.sink = place, sink
        self.grpc_port, self.http_port = free_port(), free_port()
        self.process = None

    def start(self):
        folder = importlib.util.find_spec("rotel").submodule_search_locations[0]
        command = [f"{folder}/rotel-agent", "start", "--otlp-grpc-endpoint", f"127.0.0.1:{self.grpc_port}",
                   "--otlp-http-endpoint", f"127.0.0.1:{self.http_port}", "--exporter", "otlp",
                   "--otlp-exporter-endpoint", f"http://127.0.0.1:{self.sink.port}", "--otlp-exporter-protocol", "http",
                   "--pid-file", self.place.path("rotel.pid"), "--log-file", self.place.path("rotel-agent.log")]
        self.process = self.place.run("rotel", command)
        until("rotel", lambda: answers(self.grpc_port) and answers(self.http_port))

    def stop(self):
        end(self.process)
        check("dropping data" not in self.place.log("rotel"), "rotel did not hand on what it got")
