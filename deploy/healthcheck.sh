#!/bin/bash
# Succeeds if the server in this container answers /readyz with 200. Bash's own sockets do: the
# image needs no HTTP client.
set -eu
port=${ANSWERABLE_LISTEN##*:}
exec 3<>"/dev/tcp/127.0.0.1/${port:-8080}"
printf 'GET /readyz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n' >&3
read -r -t 2 _ status _ <&3
[ "$status" = 200 ]
