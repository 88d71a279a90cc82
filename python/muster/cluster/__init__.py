# SPDX-License-Identifier: Apache-2.0
"""The coordinator of a cluster: schedules functions on workers (muster.worker), which may join, leave
and crash; each result counts once.

    from muster.cluster import Coordinator
    from steps import square                      # declared with @muster.worker.function

    with Coordinator() as coordinator:
        values = [coordinator.schedule(square, args=(x,)) for x in range(1000)]
        coordinator.join()
        print(sum(coordinator.fetch(values)))
        coordinator.dismiss()

Named as tf.distribute.coordinator.ClusterCoordinator and its values. docs/python/cluster.md is the
guide."""

from ._coordinator import ClusterCoordinator, Coordinator
from ._executor import Executor
from ._failures import (
    ClosureAbortedError,
    ClosureError,
    ClosureInputError,
    DeadlineError,
    Failure,
    PSUnavailableError,
    WorkerLostError,
)
from ._per_worker import PerWorkerDataset, PerWorkerIterator, PerWorkerValue, PerWorkerValues
from ._records import Counts, Origin, Policy, WorkerInfo, WorkerState
from ._values import RemoteValue, as_completed, fetch
from .._pickled import RemoteError, RemoteTraceback

__all__ = [
    "ClosureAbortedError",
    "ClosureError",
    "ClosureInputError",
    "ClusterCoordinator",
    "Coordinator",
    "Counts",
    "DeadlineError",
    "Executor",
    "Failure",
    "Origin",
    "PSUnavailableError",
    "PerWorkerDataset",
    "PerWorkerIterator",
    "PerWorkerValue",
    "PerWorkerValues",
    "Policy",
    "RemoteError",
    "RemoteTraceback",
    "RemoteValue",
    "WorkerInfo",
    "WorkerLostError",
    "WorkerState",
    "as_completed",
    "fetch",
]

for _name in __all__:  # what users write, and what a pickle has
    globals()[_name].__module__ = __name__
