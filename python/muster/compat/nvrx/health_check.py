# SPDX-License-Identifier: Apache-2.0
"""Whether this process can go on. Local: a check must not wait for others."""

from __future__ import annotations

import datetime
import sys
from typing import Any, Optional

from . import _thread
from ._callback import Callback
from .exception import RestartError
from .state import FrozenState


class HealthCheck(Callback):
    """A base for checks before each attempt and after each fault. What it raises before one is a fault,
    after one it ends this process's run with HealthCheckError."""


class CudaHealthCheck(HealthCheck):
    """Waits until the GPU has done all that it was given, and asks it a second time whether a part of
    that has failed. Passes where this process uses none."""

    def __init__(self, timeout: datetime.timedelta = datetime.timedelta(seconds=30)) -> None:
        self.timeout = timeout

    def __call__(self, state: FrozenState) -> FrozenState:
        device = _thread.device()
        if device is not None:
            synchronize = sys.modules["torch"].cuda.synchronize
            _thread.run("CudaHealthCheck", self.timeout, lambda: synchronize(device))
            _thread.run("CudaHealthCheck", self.timeout, lambda: synchronize(device))
        return state


class FaultCounterExceeded(RestartError):
    """This process has had too many faults of its own."""


class FaultCounter(HealthCheck):
    """Ends this process's run after more than `max_rank_faults` faults of its own. Wrapper has faults_max
    for that."""

    def __init__(self, max_rank_faults: Optional[int] = None) -> None:
        self.max_rank_faults = max_rank_faults
        self.faults_count = 0

    def __call__(self, state: FrozenState) -> FrozenState:
        if state.fn_exception is not None:
            self.faults_count += 1
            if self.max_rank_faults is not None and self.faults_count > self.max_rank_faults:
                raise FaultCounterExceeded(
                    f"{self.faults_count} faults of this process: max_rank_faults is"
                    f" {self.max_rank_faults}"
                )
        return state


MISSING = {
    "ChainedGPUHealthCheck": "`nvidia-smi` as health_command",
    "ChainedNVLHealthCheck": "`nvidia-smi nvlink --status` as health_command",
    "ChainedNicHealthCheck": "a health_command that looks at the state of the card",
}


def __getattr__(name: str) -> Any:
    if name in MISSING:
        raise AttributeError(
            f"{name}: these counters of the hardware are not read here; give Wrapper {MISSING[name]}"
        )
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
