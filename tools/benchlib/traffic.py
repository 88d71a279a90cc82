# SPDX-License-Identifier: Apache-2.0
"""What the service carries, driven by raw generators: requests, barriers, idle members."""
import time

from .figures import Bar, Measure, Pair, middle
from .programs import Bare, Beats, Idle, Redis, Service, measure, only
from .run import ANCHOR_CPU, SERVER_CPU

CONNECTIONS = 64
PERIOD_MS = 2000  # of renewals: a fifth of the default lease
NO_RENEWALS = ("--lease", "10m")  # the driver of a barrier sends none
BEAT_MS = 1000
PROCESSES = 8  # that drive a large barrier
SMALL_BARRIER = 100
TURNS = 3  # of a large barrier and a small one, within a pair


def requests_of(run, kind, server, depth):
    with server:
        report = only(measure(run.bin / "bench_generator", "-c", ANCHOR_CPU, kind, server.at,
                              CONNECTIONS, depth, run.arguments.milliseconds))
    return report["per_second"]


def requests(run, depth):
    """Each end on a CPU of its own. What Redis does at depth 1 and the bare server at depth 16,
    where it parses nothing, is for information."""
    name = f"requests, {CONNECTIONS} connections, depth {depth}, two CPUs"
    ahead = Bar("ahead", lambda pair: pair.ratio > 1)
    sixty = Bar(">= 60 %", lambda pair: pair.ratio >= 0.6)
    beside_echo = Measure(name, "echo", sixty if depth == 1 else None, "/s")
    beside_redis = Measure(name, "Redis SET", ahead if depth > 1 else None, "/s")

    def pair():
        run.pinned_ping_pong()
        echo = requests_of(run, "echo", Bare(run.bin, SERVER_CPU, "echo"), depth)
        subject = requests_of(run, "muster", Service(run.bin, SERVER_CPU), depth)
        redis = requests_of(run, "redis", Redis(SERVER_CPU), depth)
        if depth == 1:
            run.echo.append(echo)
        return Pair(subject, echo), Pair(subject, redis)

    return run.pairs([beside_echo, beside_redis], pair)


def crowd(run, kind, server, members, processes, rounds):
    with server:
        return measure(run.bin / "bench_crowd", kind, server.at, members, processes, rounds)


def barrier(run):
    """As many processes as members."""
    members = run.arguments.members
    bar = Bar.at_most(1.5)
    names = {"back_to_back": "back to back", "last_in_last_out": "last in to last out"}
    measures = [Measure(f"barrier of {members} processes, {text}, all CPUs", "bare epoll server",
                        bar) for text in names.values()]

    def pair():
        run.pinned_ping_pong()
        rounds = run.arguments.rounds
        bare = crowd(run, "bare", Bare(run.bin, None, "barrier", members), members, members, rounds)
        subject = crowd(run, "muster", Service(run.bin, None, *NO_RENEWALS), members, members,
                        rounds)
        run.barrier.append(bare["back_to_back"]["p50_us"])
        return [Pair.of_p50(subject[name], bare[name]) for name in names]

    return run.pairs(measures, pair)


def large_barrier(run, members):
    """What a member costs, beside what it costs where there are few; over the sockets that a job on
    one machine uses. That of the bare server says how much of the growth is the machine's own. Few
    and many alternate, with as many arrivals: where the scheduler happens to put a server and its
    drivers decides more about a short run than what it runs."""
    name = f"barrier of {members:,}, {PROCESSES} processes, Unix sockets, all CPUs, each member"
    subject = Measure(name, f"of {SMALL_BARRIER}", Bar.at_most(1.5))
    bare = Measure("    the bare epoll server's", f"of {SMALL_BARRIER}")

    def turn(kind, count):
        rounds = max(run.arguments.rounds * members // count // TURNS, 1)
        server = (Bare(run.bin, None, "barrier", count, unix=True) if kind == "bare"
                  else Service(run.bin, None, *NO_RENEWALS, unix=True))
        return crowd(run, kind, server, count, PROCESSES, rounds)

    def each(reports, count):
        report = middle(reports)["back_to_back"]
        return {of: report[of] / count for of in ("p50_us", "p90_us")}

    def pair():
        run.pinned_ping_pong()
        sizes = (SMALL_BARRIER, members)
        of = {(kind, count): [] for kind in ("muster", "bare") for count in sizes}
        for _ in range(TURNS):
            for (kind, count), reports in of.items():
                reports.append(turn(kind, count))
        return [Pair.of_p50(*(each(of[kind, count], count) for count in reversed(sizes)))
                for kind in ("muster", "bare")]

    return run.pairs([subject, bare], pair)


def idle_cost(run, kind, server, members):
    """CPU of the server per renewal, and its memory per member."""
    with server:
        before_kib = server.memory_kib()
        with Idle(run.bin, ANCHOR_CPU, kind, server.at, members, PERIOD_MS) as idle:
            memory_kib = (server.memory_kib() - before_kib) / members
            sent, used_us = idle.ready["sent"], server.cpu_us()
            time.sleep(run.arguments.milliseconds / 1000 + PERIOD_MS / 1000)
            used_us = server.cpu_us() - used_us
            return used_us / (idle.end()["sent"] - sent), memory_kib, idle.ready["answer_bytes"]


def idle(run):
    members = run.arguments.idle
    name = f"{members:,} idle members"
    memory = Measure(f"{name}, memory of each", bar=Bar("<= 4 KiB", lambda one: one.subject <= 4),
                     unit="KiB")
    cpu = Measure(f"{name}, CPU of a renewal, one CPU", "bare epoll server", Bar.at_most(2))

    def pair():
        run.pinned_ping_pong()
        used_us, memory_kib, answer = idle_cost(run, "muster", Service(run.bin, ANCHOR_CPU), members)
        bare_us, _, _ = idle_cost(run, "bare", Bare(run.bin, ANCHOR_CPU, "answer", answer), members)
        return Pair(memory_kib), Pair(used_us, bare_us)

    return run.pairs([memory, cpu], pair)


def beat_cost(run, kind, server, members, *sizes):
    """CPU of the server per beat of a member; and what a beat has in bytes, each way."""
    with server:
        with Beats(run.bin, ANCHOR_CPU, kind, server.at, members, BEAT_MS, *sizes) as beats:
            answered, used_us = beats.ready["answered"], server.cpu_us()
            time.sleep(run.arguments.milliseconds / 1000 + 3 * BEAT_MS / 1000)
            end = beats.end()
            used_us = server.cpu_us() - used_us
            return used_us / (end["answered"] - answered), end["request_bytes"], end["answer_bytes"]


def heartbeat(run):
    """The bare server takes and gives the same bytes at the same moments."""
    members = run.arguments.idle
    cpu = Measure(f"heartbeat of {members:,} members once per second, CPU of a beat, one CPU",
                  "bare epoll server", Bar.at_most(2))

    def pair():
        run.pinned_ping_pong()
        used_us, *sizes = beat_cost(run, "muster", Service(run.bin, ANCHOR_CPU, *NO_RENEWALS),
                                    members)
        bare_us, *_ = beat_cost(run, "bare", Bare(run.bin, ANCHOR_CPU, "barrier", members, *sizes),
                                members, *sizes)
        return (Pair(used_us, bare_us),)

    return run.pairs([cpu], pair)
