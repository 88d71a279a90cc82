# SPDX-License-Identifier: Apache-2.0
"""Asynchronous training with a parameter server, as in TensorFlow's guide to ClusterCoordinator: the
server holds the weights, workers compute gradients on their own shards and add them to these, the
coordinator schedules steps, measures and saves.

    muster run -n 1 python3 parameter_server.py train /tmp/model : \\
        -n 1 python3 parameter_server.py serve : -n 3 python3 -m muster.worker parameter_server.py

Kill any of these processes at any time. A worker's step runs elsewhere. When the server is killed,
the coordinator restores its last checkpoint into the new one; when the coordinator is, its next
process does that.

Who is a hero? The model learns it from sets of names, which it sees as yes or no.
"""

import contextlib
import json
import math
import pathlib
import random
import sys
import threading
from multiprocessing.connection import Client, Listener

import muster
from muster import worker
from muster.cluster import Coordinator, PSUnavailableError

NAMES = ("avenger", "ironman", "batman", "hulk", "spiderman", "kingkong", "wonder_woman")
EPOCHS, STEPS, BATCH, RATE = 4, 50, 16, 0.5
SERVER = "ps0"
TROUBLE = (EOFError, OSError)  # of a connection


# ---- the parameter server ----


class Weights:
    """Where all workers add at once. Each addition is whole; reads may be a few of these behind."""

    def __init__(self):
        self.lock = threading.Lock()
        self.values = {}

    def read(self):
        with self.lock:
            return dict(self.values)

    def write(self, values):
        with self.lock:
            self.values = dict(values)

    def add(self, changes):
        with self.lock:
            for name, change in changes.items():
                self.values[name] = self.values.get(name, 0.0) + change


def attend(connection, weights):
    """One connection: (name of a method, its arguments) in, its result out."""
    with contextlib.suppress(*TROUBLE), connection:
        while True:
            method, args = connection.recv()
            connection.send(getattr(weights, method)(*args))


def serve():
    weights = Weights()
    with muster.open(role="worker") as job, Listener(("127.0.0.1", 0)) as listener:
        # Its key is gone when it is.
        job.keys.insert(SERVER, json.dumps(listener.address), owned=True)

        def accept():
            while True:
                connection = listener.accept()
                threading.Thread(target=attend, args=(connection, weights), daemon=True).start()

        threading.Thread(target=accept, daemon=True).start()
        job.keys.wait(f"{SERVER}/stop")


class Server:
    """The parameter server, for those who use it."""

    def __init__(self, job):
        self.job = job
        self.connection = None

    def call(self, method, *args):
        try:
            if self.connection is None:
                address = json.loads(self.job.keys.get(SERVER, timeout=None))
                self.connection = Client(tuple(address))
            self.connection.send((method, args))
            return self.connection.recv()
        except BaseException:  # a function that is stopped here, too: the next answer is not its own
            self.connection = None
            raise


# ---- what workers do ----

_server = None


def of_server(method, *args):
    global _server
    _server = _server or Server(worker.job())
    try:
        return _server.call(method, *args)
    except TROUBLE as why:
        raise worker.StateServerFailed(SERVER, str(why)) from why


def example(dice):
    names = dice.sample(NAMES, 3)
    return names, 1.0 if "avenger" in names else 0.0


@worker.function
def batches():
    """The shard of one worker, without end."""
    dice = random.Random(worker.get_current_worker_index())
    while True:
        yield [example(dice) for _ in range(BATCH)]


def predict(weights, names):
    return 1 / (1 + math.exp(-sum(weights.get(name, 0.0) for name in ("bias", *names))))


@worker.function
def step(iterator):
    """Returns how many of the batch it would have had right."""
    weights = of_server("read")
    changes, right = {}, 0
    batch = next(iterator)
    for names, label in batch:
        guess = predict(weights, names)
        right += (guess > 0.5) == (label > 0.5)
        for name in ("bias", *names):
            changes[name] = changes.get(name, 0.0) + RATE * (label - guess) / len(batch)
    of_server("add", changes)
    return right


@worker.function
def evaluate(seed):
    weights = of_server("read")
    dice = random.Random(seed)
    examples = [example(dice) for _ in range(100)]
    return sum((predict(weights, names) > 0.5) == (label > 0.5) for names, label in examples)


# ---- the coordinator ----


class Checkpoint:
    def __init__(self, path):
        self.path = pathlib.Path(path)

    def save(self, epoch, weights):
        new = self.path.with_suffix(".new")
        new.write_text(json.dumps([epoch, weights]))
        new.replace(self.path)

    def load(self):
        return json.loads(self.path.read_text()) if self.path.exists() else [0, {}]


def restored(job, checkpoint):
    """(the server, the epochs that are done), with the weights of the last checkpoint in it."""
    while True:
        server = Server(job)
        epoch, weights = checkpoint.load()
        with contextlib.suppress(*TROUBLE):  # it is being replaced
            server.call("write", weights)
            return server, epoch


def one_epoch(coordinator, iterator):
    results = [coordinator.schedule(step, args=(iterator,)) for _ in range(STEPS)]
    coordinator.join()
    return sum(coordinator.fetch(results)) / (STEPS * BATCH)


def learn(job, coordinator, checkpoint, epochs):
    coordinator.state_server(SERVER)
    iterator = iter(coordinator.create_per_worker_dataset(batches))
    server, epoch = restored(job, checkpoint)
    while epoch < epochs:
        try:
            accuracy = one_epoch(coordinator, iterator)
            checkpoint.save(epoch + 1, server.call("read"))
        except (PSUnavailableError, *TROUBLE) as why:
            print(f"the server was lost, back to the checkpoint: {why}", flush=True)
            server, epoch = restored(job, checkpoint)
            continue
        epoch += 1
        print(f"epoch {epoch}: training accuracy {accuracy:.2f}", flush=True)
    right = coordinator.fetch(coordinator.map(evaluate, range(10)))
    print(f"evaluation accuracy {sum(right) / 1000:.2f}", flush=True)


def train(path, epochs=EPOCHS):
    # A new server is empty, so a step must not be tried again there before it is restored.
    with muster.open(role="worker") as job, Coordinator(job, transient_limit=-1) as coordinator:
        if not coordinator.dismissed:  # or this is a restart, and the work is done
            learn(job, coordinator, Checkpoint(path), epochs)
        job.keys[f"{SERVER}/stop"] = b""
        coordinator.dismiss()


if __name__ == "__main__":
    if sys.argv[1] == "serve":
        serve()
    else:
        train(sys.argv[2], *map(int, sys.argv[3:]))
