# SPDX-License-Identifier: Apache-2.0
"""A program that was written for nvidia_resiliency_ext: only the import is another one. Told by its first
argument what to do."""

import datetime
import os
import sys
import warnings
from typing import Optional

import muster.compat.nvrx as inprocess

MODE = sys.argv[1]
# What is raised on rank 1 where there is nothing in it.
FINALIZES = [] if MODE == "unclean" and os.environ["RANK"] == "1" else [True]
seconds = lambda number: datetime.timedelta(seconds=number)  # noqa: E731


def say(*words):
    sys.stdout.write(" ".join(map(str, words)) + "\n")
    sys.stdout.flush()


class Noted(inprocess.initialize.Initialize):
    def __call__(self, state):
        say(
            f"initialize iteration={state.iteration} rank={state.rank} mode={state.mode.name}"
            f" initial={state.initial_rank}/{state.initial_world_size}"
        )
        return state


class Last(inprocess.completion.Completion):
    def __call__(self, state):
        say("completed", state.initial_rank)
        return state


class End(inprocess.terminate.Terminate):
    def __call__(self, state):
        say("terminated", state.initial_rank, state.mode.name)
        return state


class SeesFault(inprocess.health_check.HealthCheck):
    def __call__(self, state):
        if state.fn_exception is not None:
            raise MemoryError(f"after {state.fn_exception!r}")
        return state


CHECKS = {
    "unhealthy": SeesFault(),
    "counted": inprocess.health_check.FaultCounter(max_rank_faults=1),
}


@inprocess.Wrapper(
    store_kwargs={"timeout": seconds(60), "port": 29500},
    initialize=inprocess.Compose(
        Noted(), inprocess.initialize.RetryController(max_iterations=2 if MODE == "gives_up" else None)
    ),
    abort=inprocess.abort.AbortTorchDistributed(),
    finalize=inprocess.finalize.ThreadedFinalize(timeout=seconds(60), fn=lambda: say(FINALIZES[0] and "finalized")),
    health_check=inprocess.Compose(
        CHECKS.get(MODE, inprocess.health_check.FaultCounter()), inprocess.health_check.CudaHealthCheck()
    ),
    rank_assignment=inprocess.Compose(
        inprocess.rank_assignment.ActivateAllRanks(),
        inprocess.rank_assignment.MaxActiveWorldSize(3),
        inprocess.rank_assignment.ShiftRanks(),
    )
    if MODE == "port"
    else inprocess.Compose(
        inprocess.rank_assignment.ActivateAllRanks(), inprocess.rank_assignment.ShiftRanks()
    ),
    monitor_thread_interval=seconds(1),
    heartbeat_timeout=seconds(10),
    soft_timeout=seconds(30),
    hard_timeout=seconds(60),
    barrier_timeout=seconds(120),
    last_call_wait=seconds(0),
    monitor_process_logfile="/tmp/monitor_{rank}.log",
    completion=Last(),
    terminate=End(),
    **({"iterations_max": 2} if MODE == "limit" else {}),
)
def train(base, call_wrapper: Optional[inprocess.CallWrapper] = None):
    rank, size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    say(f"entered iteration={call_wrapper.iteration} rank={rank} size={size}")
    call_wrapper.job.barrier("all are in")  # only for this test: they count attempts alike
    call_wrapper.ping()
    with call_wrapper.atomic():
        pass
    with call_wrapper.disable_hang_protection():
        pass
    if MODE == "aborts" and rank == 1:
        raise inprocess.exception.RestartAbort("no data")
    fails = {"port": 1, "unhealthy": 1, "unclean": 1, "counted": 2, "gives_up": 9, "limit": 9}.get(MODE, 0)
    if rank == 1 and size == 3 and call_wrapper.iteration < fails:
        raise ValueError("a bug")
    while call_wrapper.iteration == 0 or (MODE != "port" and size == 3):
        call_wrapper.ping()
    return base + rank


with warnings.catch_warnings(record=True) as told:
    warnings.simplefilter("always")
    inprocess.Wrapper(heartbeat_interval=seconds(1), monitor_process_pidfile="/tmp/pid")
    inprocess.Wrapper(heartbeat_interval=seconds(2))
    names = [str(one.message).split()[1] for one in told if one.category is DeprecationWarning]
    assert names == ["heartbeat_interval", "monitor_process_pidfile"], names

try:
    say("returned", train(100))
except inprocess.exception.HealthCheckError as error:
    say("unhealthy:", repr(error.__cause__))
except inprocess.exception.InternalError as error:
    say("internal:", repr(error.__cause__))
except inprocess.exception.RestartAbort as error:
    say("aborted:", error)
