#!/usr/bin/env python3
"""Arize Phoenix shows each run as an agent's tree: kinds, tokens, tools, errors, sessions, and content where it may be.

    phoenix.py PROGRAM POSTGRES_BIN CLUSTER

PROGRAM is the server, CLUSTER the socket folder of a PostgreSQL; `make otlp` calls it so. It listens on loopback alone.
"""
import sys
import time

import phoenix_checks as checks
from identity import VARIABLES
from phoenix_server import Phoenix
from place import Failed, Place, check, end_as_asked, until
from plays import killed, play_all
from server import Server
from world import World

CALL = {"card": {"number": "[redacted]", "name": "Ann"}, "cents": 1200}
RESULT = {"receipt": "R-1", "cards": [{"number": "[redacted]"}, {"number": "[redacted]"}]}
ANSWER, LONG_ANSWER = "Charged:\n\"R-1\" ✓", "A long answer. " * 2_000


def main(program, postgres_bin, cluster):
    try:
        with Place(postgres_bin, cluster) as place:
            began = time.monotonic()
            phoenix = Phoenix(place)
            print(f"  Phoenix listens after {time.monotonic() - began:.0f} s", flush=True)
            told = show_runs(place, program, phoenix)
        print(f"  ok      {told} ({time.monotonic() - began:.0f} s)", flush=True)
        return 0
    except Failed as failure:
        print(f"  FAILED  {failure}", flush=True)
        return 1


def show_runs(place, program, phoenix):
    variables = {**VARIABLES, "OTEL_METRICS_EXPORTER": "none", "OTEL_EXPORTER_OTLP_ENDPOINT": phoenix.base}
    server = Server(place, program, place.database("phoenix"), variables)
    world = World(server)
    runs = play_all(world)
    runs += killed(world, lambda _: None)
    count = sum(len(checks.shown(world.trace(run_id))) for run_id in runs)
    until(f"{count} spans in Phoenix", lambda: (phoenix.project() or {}).get("recordCount", 0) >= count, 120, 0.5)
    judge(world, runs, phoenix, count)
    server.stop()
    tokens = world.tokens["input"] + world.tokens["output"]
    return f"{len(runs)} runs as {count} spans and {tokens} tokens"


def judge(world, runs, phoenix, count):
    project = phoenix.project()
    totals = (project["traceCount"], project["recordCount"], project["tokenCountPrompt"], project["tokenCountCompletion"])
    wanted = (len(runs), count, world.tokens["input"], world.tokens["output"])
    check(totals == wanted, f"traces, spans and tokens are {totals} in all, and not {wanted}")
    of_trace, spans = {}, phoenix.spans()
    checks.check_redacted(spans)
    for span in spans:
        of_trace.setdefault(span["context"]["trace_id"], []).append(span)
    seen = [checks.Seen(world, run_id, of_trace) for run_id in runs]
    for run in seen:
        judge_run(world, run, phoenix.trace(run.trace_id))
    checks.check_models(seen, world.replies)
    check(project["sessionCount"] == 1, f"there are {project['sessionCount']} sessions")


def judge_run(world, run, trace):
    checks.check_tree(run)
    checks.check_totals(run, trace)
    checks.check_tools(run)
    thread = world.api_of[run.run_id].get(f"/v1/runs/{run.run_id}")["thread_id"]
    session = checks.check_sessions(run, trace, thread)
    check((session or {"numTraces": 2})["numTraces"] == 2, f"the session has {session} traces")
    if run.model == "told":
        checks.check_told(run, CALL, RESULT, ANSWER)
    elif run.model == "told-at-length":
        checks.check_told_at_length(run, LONG_ANSWER)
    else:
        checks.check_silent(run)


if __name__ == "__main__":
    end_as_asked()
    sys.exit(main(*sys.argv[1:]))
