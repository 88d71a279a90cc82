# SPDX-License-Identifier: Apache-2.0
"""The enums and records of a cluster, made of C's."""

from typing import TYPE_CHECKING, Any, Callable

from .._c import enum_of, record_of

if TYPE_CHECKING:  # from the headers, as what follows is: python/stubs.py
    from .._types import (
        Counts as Counts,
        Origin as Origin,
        Policy as Policy,
        WorkerInfo as WorkerInfo,
        WorkerState as WorkerState,
    )

    counts_of: Callable[[Any], Counts]
    worker_of: Callable[[Any], WorkerInfo]
else:
    Policy = enum_of(
        "Policy",
        "enum muster_cluster_policy",
        "What a failure does to the other closures: FAIL_FAST: the first one ends the series. COLLECT:"
        " join raises all of them at the end. ISOLATE: none is raised by join.",
    )
    Origin = enum_of("Origin", "enum muster_origin", "Where the failure of a closure comes from.")
    WorkerState = enum_of(
        "WorkerState", "enum muster_worker_state", "Where a worker stands; SILENT: its connection broke."
    )
    Counts, counts_of = record_of("Counts", "struct muster_cluster_counts", "Coordinator.counts().")
    WorkerInfo, worker_of = record_of("WorkerInfo", "struct muster_cluster_worker", "One worker.")
