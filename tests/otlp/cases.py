"""What `receivers.py` checks: one function a receiver, or a circumstance. Each gives a line about what it saw."""
import time

import metrics
from certificates import certificates
from collectors import Rotel, Tap
from grpc_sink import GrpcSink
from identity import SERVICE, VARIABLES, check_identity, check_variety
from place import check, until
from plays import killed, play_all, retried
from server import Server
from sink import HttpSink
from spans import arrive, by_id, shown
from world import World

AWAY_S = 20
SECRET = "Bearer c2VjcmV0, of=the shop"
HEADERS = {"authorization": SECRET, "x-team": "lamps"}


def tap_over_http(place, program):
    """oteltap, over http/protobuf."""
    sink = HttpSink()
    tap = Tap(place, sink)
    tap.start()
    server = Server(place, program, place.database("tap"), endpoint(tap.port, "http/protobuf"))
    told = all_runs(server, sink, also=tap.printed_spans)
    others = metrics.Received(sink).names() ^ tap.printed_metrics()
    check(not others, f"oteltap printed other metrics: {sorted(others)}")
    return told


def rotel_over_grpc(place, program):
    sink = HttpSink()
    rotel = Rotel(place, sink)
    rotel.start()
    told = all_runs(Server(place, program, place.database("rotel_grpc"), endpoint(rotel.grpc_port, "grpc")), sink)
    rotel.stop()
    return told


def rotel_over_http(place, program):
    """Compressed."""
    sink = HttpSink()
    rotel = Rotel(place, sink)
    rotel.start()
    variables = {**endpoint(rotel.http_port, "http/protobuf"), "OTEL_EXPORTER_OTLP_COMPRESSION": "gzip"}
    told = all_runs(Server(place, program, place.database("rotel_http"), variables), sink)
    rotel.stop()
    return told


def over_tls(place, program):
    """TLS with a certificate of one's own, headers and compression, on both transports."""
    authority, pair = certificates(place)
    for name, sink, protocol in (("http", HttpSink(pair), "http/protobuf"), ("grpc", GrpcSink(pair), "grpc")):
        encoded = ",".join(f"{key}={value.replace(',', '%2C').replace('=', '%3D')}" for key, value in HEADERS.items())
        variables = {**endpoint(sink.port, protocol, "https://localhost"), "OTEL_EXPORTER_OTLP_HEADERS": encoded,
                     "OTEL_EXPORTER_OTLP_COMPRESSION": "gzip"}
        server = Server(place, program, place.database(f"tls_{name}"), variables, f"server-{name}")
        world = World(server)
        runs, _ = retried(world)
        world.ended(runs[0])
        # Nobody vouches for the receiver: nothing is sent to it.
        until("a failed export", lambda: server.metric("answerable_trace_export_failures_total"))
        check(not sink.headers, "a receiver that nobody vouches for was sent something")
        server.stop()
        server.environment["OTEL_EXPORTER_OTLP_CERTIFICATE"] = authority
        server.start()
        arrive(expected(world, runs), sink.spans)
        until("metrics", sink.resource_metrics)
        server.stop()
        for given in sink.headers:
            check(HEADERS.items() <= given.items(), f"a request over {name} had the headers {given}")
        check("c2VjcmV0" not in place.log(f"server-{name}"), "the log has a secret of a header")
    return f"{len(HEADERS)} headers on each request, over HTTP and gRPC"


def away(place, program):
    """Collectors that come 20 s late, one over each transport. The servers are killed before that."""
    sinks = {"http": HttpSink(), "grpc": HttpSink()}
    tap, rotel = Tap(place, sinks["http"]), Rotel(place, sinks["grpc"])
    lines = {"http": endpoint(tap.port, "http/protobuf"), "grpc": endpoint(rotel.grpc_port, "grpc")}
    worlds, began = {}, time.monotonic()
    for name, variables in lines.items():
        worlds[name] = World(Server(place, program, place.database(f"away_{name}"), variables, f"server-{name}"))
    runs = {name: play_all(world) + killed(world, lambda _: None) for name, world in worlds.items()}
    most = {name: until("a backlog", lambda world=world: backlog(world), 30) for name, world in worlds.items()}
    time.sleep(max(0.0, AWAY_S - (time.monotonic() - began)))
    tap.start()
    rotel.start()
    for name, world in worlds.items():
        wanted = expected(world, runs[name])
        arrive(wanted, sinks[name].spans)
        until("the end of the backlog", lambda world=world: backlog(world) == 0, 40)
        metric = world.server.metric
        check(metric("answerable_trace_exported_total") == len(wanted), "the server counts other spans than arrived")
        check(metric("answerable_trace_dropped_total") == 0, "spans were dropped")
        check(metric("answerable_trace_export_failures_total") > 0, "no failure was counted")
    return f"backlogs of {most['http']:.0f} and {most['grpc']:.0f} commits rose and fell"


def endpoint(port, protocol, base="http://127.0.0.1"):
    return {**VARIABLES, "OTEL_EXPORTER_OTLP_ENDPOINT": f"{base}:{port}", "OTEL_EXPORTER_OTLP_PROTOCOL": protocol}


def backlog(world):
    return world.server.metric("answerable_trace_backlog")


def expected(world, runs):
    """What the runs' own traces show."""
    spans = [span for run_id in runs for span in shown(world.trace(run_id))]
    known = by_id(spans)
    check(len(known) == len(spans), "two spans have one id")
    return known


def all_runs(server, sink, also=None):
    """Plays everything, kills the server among it, and compares spans and metrics. `also` gives what else was received."""
    world = World(server)
    runs = play_all(world)
    metrics.tokens_arrive(sink, world.tokens)
    count = metrics.all_arrive(sink, expected(world, runs).values(), server)
    runs += killed(world, lambda paid: metrics.tokens_arrive(sink, paid))
    wanted = expected(world, runs)
    check_variety(wanted.values())
    arrive(wanted, sink.spans)
    if also:
        arrive(wanted, also)
    metrics.tokens_arrive(sink, world.tokens)
    check_own_tokens(wanted.values(), world.tokens)
    check(len(metrics.Received(sink).servers) == 2, "the metrics of two servers are not told from one another")
    check_identity(sink, world.trace(runs[0]))
    server.stop()
    # Its last words are none of other runs, and no other words of these.
    arrive(wanted, sink.spans)
    tokens = world.tokens["input"] + world.tokens["output"]
    return f"{len(runs)} runs, {len(wanted)} spans, {count} metrics, {tokens} tokens of {SERVICE!r}"


def check_own_tokens(spans, tokens):
    """What runs say they used is what models were paid for, once each."""
    roots = [span["attributes"] for span in spans if span["name"] == "agent.run"]
    for kind, wanted in tokens.items():
        used = sum(root[f"answerable.{kind}_tokens"][1] for root in roots)
        check(used == wanted, f"runs used {used} {kind} tokens, and models were paid for {wanted}")
