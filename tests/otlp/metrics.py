"""Metrics that arrived: their names, their buckets, and that they count what models said they were paid."""
import urllib.request

from place import Failed, check, until

# Semantic conventions for generative AI, v1.41.
BUCKETS = {
    "gen_ai.client.token.usage":
        (1, 4, 16, 64, 256, 1024, 4096, 16384, 65536, 262144, 1048576, 4194304, 16777216, 67108864),
    "gen_ai.client.operation.duration":
        (0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.56, 5.12, 10.24, 20.48, 40.96, 81.92),
}
CUMULATIVE = 2
# How Prometheus writes a unit; of the others it writes none.
UNITS = {"s": "_seconds"}


class Received:
    """The newest of each metric of each server, by (server, name)."""

    def __init__(self, sink):
        self.newest = {}
        for part in sink.resource_metrics():
            resource = {pair.key: pair.value.string_value for pair in part.resource.attributes}
            for scope in part.scope_metrics:
                for metric in scope.metrics:
                    self.newest[resource.get("service.instance.id"), metric.name] = metric
        self.servers = {server for server, _ in self.newest}

    def names(self):
        return {name for _, name in self.newest}

    def names_of_prometheus(self):
        """The names as /metrics has them."""
        return {prometheus_name(metric) for metric in self.newest.values()}

    def points(self, name):
        """Data points of a histogram, of all servers."""
        found = [metric for (_, of), metric in self.newest.items() if of == name]
        return [point for metric in found for point in metric.histogram.data_points]

    def tokens(self):
        """The tokens of all servers, by their type."""
        sums = {"input": 0, "output": 0}
        for point in self.points("gen_ai.client.token.usage"):
            labels = {pair.key: pair.value.string_value for pair in point.attributes}
            sums[labels["gen_ai.token.type"]] += point.sum
        return sums


def check_histograms(received):
    for name, bounds in BUCKETS.items():
        points = received.points(name)
        check(points, f"{name} did not come")
        for point in points:
            check(tuple(point.explicit_bounds) == bounds, f"{name} has the bounds {list(point.explicit_bounds)}")
            check(sum(point.bucket_counts) == point.count, f"the buckets of {name} are not its count")
    for (_, name), metric in received.newest.items():
        kind = metric.WhichOneof("data")
        if kind != "gauge":
            check(getattr(metric, kind).aggregation_temporality == CUMULATIVE, f"{name} is not cumulative")


def operations(received):
    """How many operations were measured, by their name."""
    counts = {}
    for point in received.points("gen_ai.client.operation.duration"):
        labels = {pair.key: pair.value.string_value for pair in point.attributes}
        check({"gen_ai.operation.name", "gen_ai.provider.name"} <= labels.keys(), f"an operation has the labels {labels}")
        name = labels["gen_ai.operation.name"]
        counts[name] = counts.get(name, 0) + point.count
    return counts


def operations_of(spans):
    """The operations that spans tell of; a result that nothing was executed for is none."""
    counts = {}
    for span in spans:
        name = span["attributes"].get("gen_ai.operation.name", (None, None))[1]
        if name and "answerable.tool.executed" not in span["attributes"]:
            counts[name] = counts.get(name, 0) + 1
    return counts


def check_labels(received):
    """No label names a run, a tenant or a conversation."""
    for (_, name), metric in received.newest.items():
        for point in getattr(metric, metric.WhichOneof("data")).data_points:
            ids = [pair.key for pair in point.attributes if pair.value.string_value.startswith(("run_", "ten_", "thr_"))]
            check(not ids, f"{name} has an id as a label: {ids}")


def names_read_out(server):
    """The metrics of /metrics."""
    with urllib.request.urlopen(f"{server.base}/metrics", timeout=10) as answer:
        lines = answer.read().decode().splitlines()
    return {line.split(" ")[2] for line in lines if line.startswith("# TYPE ")}


def prometheus_name(metric):
    is_counter = metric.WhichOneof("data") == "sum" and metric.sum.is_monotonic
    return metric.name.replace(".", "_") + UNITS.get(metric.unit, "") + ("_total" if is_counter else "")


def same(what, wanted, received, seconds=20):
    """Waits until what was received is what is wanted."""
    try:
        until(what, lambda: received() == wanted, seconds, 0.3)
    except Failed:
        raise Failed(f"{what}: {wanted} were wanted, and {received()} came") from None


def tokens_arrive(sink, tokens):
    """The metrics that arrived have counted exactly these tokens."""
    same("tokens as the models told them", tokens, lambda: Received(sink).tokens())


def all_arrive(sink, spans, server):
    """What was measured of one server agrees with what its spans tell, and with what it shows at /metrics."""
    same("operations", operations_of(spans), lambda: operations(Received(sink)))
    same("metrics", names_read_out(server), lambda: Received(sink).names_of_prometheus())
    received = Received(sink)
    check_histograms(received)
    check_labels(received)
    return len(received.names())
