# SPDX-License-Identifier: Apache-2.0
"""Empty tasks of Dask per second: a scheduler, two worker processes of one thread each and the
client on this machine, as its own LocalCluster starts them.

usage: dask_rate.py WORKERS COUNT
"""
import json
import sys
import time

from distributed import Client, LocalCluster


def empty(_):
    return None


def main():
    workers, count = int(sys.argv[1]), int(sys.argv[2])
    with LocalCluster(n_workers=workers, threads_per_worker=1, processes=True,
                      dashboard_address=None) as cluster, Client(cluster) as client:
        client.gather(client.map(empty, range(100), pure=False))
        begin = time.monotonic()
        client.gather(client.map(empty, range(count), pure=False))
        seconds = time.monotonic() - begin
    print(json.dumps({"name": "rate", "n": count, "per_second": count / seconds}))


if __name__ == "__main__":
    main()
