#!/usr/bin/env python3
"""Real receivers get what the runs' traces show, exactly, and the metrics beside it.

    receivers.py PROGRAM POSTGRES_BIN CLUSTER [CASE…]

PROGRAM is the server, CLUSTER the socket folder of a PostgreSQL; `make otlp` calls it so. It listens on loopback alone.
"""
import sys
import time

from cases import away, over_tls, rotel_over_grpc, rotel_over_http, tap_over_http
from place import Failed, Place, end_as_asked

CASES = {case.__name__: case for case in (tap_over_http, rotel_over_grpc, rotel_over_http, over_tls, away)}


def main(program, postgres_bin, cluster, *chosen):
    failed = []
    unknown = [name for name in chosen if name not in CASES]
    if unknown:
        sys.exit(f"error: there is no case {unknown[0]!r}; there are {', '.join(CASES)}")
    for name in chosen or CASES:
        began = time.monotonic()
        try:
            with Place(postgres_bin, cluster) as place:
                told = CASES[name](place, program)
            print(f"  ok      {name}: {told} ({time.monotonic() - began:.0f} s)", flush=True)
        except Failed as failure:
            failed.append(name)
            print(f"  FAILED  {name}: {failure}", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    end_as_asked()
    sys.exit(main(*sys.argv[1:]))
