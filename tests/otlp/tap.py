"""A process with oteltap, which prints each span and metric as a line of JSON and hands each request on as it came.

    tap.py PORT NEXT      NEXT: a receiver's base URL
"""
import asyncio
import sys

from oteltap import OtelTapHttpProtobufReceiver, OtelTapHttpProtobufReceiverSettings


async def main(port, following):
    settings = OtelTapHttpProtobufReceiverSettings(
        http_port=int(port), print_traces_as_ndjson=True, print_metrics_as_ndjson=True,
        reemit_traces_to_url=f"{following}/v1/traces", reemit_metrics_to_url=f"{following}/v1/metrics")
    async with OtelTapHttpProtobufReceiver(settings):
        await asyncio.Event().wait()


asyncio.run(main(*sys.argv[1:]))
