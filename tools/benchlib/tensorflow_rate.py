# SPDX-License-Identifier: Apache-2.0
"""The same closures by TensorFlow's ClusterCoordinator: a server process for each worker, one
parameter server, and the coordinator, on this machine.

usage: tensorflow_rate.py WORKERS COUNT ROUNDTRIPS
"""
import json
import os
import socket
import statistics
import subprocess
import sys
import time

os.environ.update(TF_CPP_MIN_LOG_LEVEL="3", GRPC_FAIL_FAST="use_caller")


def free_ports(count):
    sockets = [socket.socket() for _ in range(count)]
    for one in sockets:
        one.bind(("127.0.0.1", 0))
    ports = [one.getsockname()[1] for one in sockets]
    for one in sockets:
        one.close()
    return [f"127.0.0.1:{port}" for port in ports]


def serve(spec, job, index):
    import tensorflow as tf

    server = tf.distribute.Server(tf.train.ClusterSpec(json.loads(spec)), job_name=job,
                                  task_index=int(index), protocol="grpc", start=True)
    print("serves", flush=True)
    server.join()


def measure(spec, count, roundtrips):
    import tensorflow as tf

    resolver = tf.distribute.cluster_resolver.SimpleClusterResolver(
        tf.train.ClusterSpec(spec), rpc_layer="grpc", task_type="chief", task_id=0)
    strategy = tf.distribute.experimental.ParameterServerStrategy(resolver)
    coordinator = tf.distribute.coordinator.ClusterCoordinator(strategy)

    @tf.function
    def empty(x):
        return x

    argument = tf.constant(0)

    def many(times):
        for _ in range(times):
            coordinator.schedule(empty, args=(argument,))
        coordinator.join()

    many(50)
    begin = time.monotonic()
    many(count)
    seconds = time.monotonic() - begin
    print(json.dumps({"name": "rate", "n": count, "per_second": count / seconds}), flush=True)
    times_us = []
    for _ in range(roundtrips):
        begin = time.monotonic()
        coordinator.schedule(empty, args=(argument,)).fetch()
        times_us.append((time.monotonic() - begin) * 1e6)
    print(json.dumps({"name": "rtt", "n": roundtrips, "p50_us": statistics.median(times_us)}),
          flush=True)


def main():
    if sys.argv[1] == "serve":
        return serve(*sys.argv[2:])
    workers, count, roundtrips = map(int, sys.argv[1:])
    chief, server, *others = free_ports(workers + 2)
    spec = {"chief": [chief], "ps": [server], "worker": others}
    tasks = [("ps", 0), *(("worker", index) for index in range(workers))]
    processes = []
    try:
        for job, index in tasks:
            processes.append(subprocess.Popen(
                [sys.executable, __file__, "serve", json.dumps(spec), job, str(index)],
                stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True))
        for process in processes:
            if process.stdout.readline() != "serves\n":
                raise SystemExit("a server did not start")
        measure(spec, count, roundtrips)
    finally:
        for process in processes:
            process.kill()
    os._exit(0)  # its own end waits for the servers


if __name__ == "__main__":
    main()
