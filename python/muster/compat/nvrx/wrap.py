# SPDX-License-Identifier: Apache-2.0
"""The wrapper of a function that runs again in the same processes."""

from __future__ import annotations

import datetime
import functools
from typing import Any, Callable, Optional, Type

from ..._call import Call
from ..._errors import Failed, TooFew, Unhealthy
from ..._muster import lib
from ..._restart import Wrapper as MusterWrapper
from .abort import AbortTorchDistributed
from .compose import Compose
from .exception import HealthCheckError, InternalError, RestartAbort
from .rank_assignment import assignment_of

CallWrapper = Call
ALONE = (lib.MUSTER_WHY_FINALIZE, lib.MUSTER_WHY_SUSPECT)  # the others go on


class Wrapper(MusterWrapper):
    """muster.Wrapper with the parameters, the rank assignments and the exceptions of
    nvidia_resiliency_ext.inprocess.Wrapper. None is a default of muster: docs/python/restart.md has
    them, and says which parameters mean nothing here. Those of muster.Wrapper are taken too."""

    def __init__(
        self,
        *,
        store_factory: Any = None,
        store_kwargs: Optional[dict[str, Any]] = None,
        initialize: Any = None,
        abort: Any = AbortTorchDistributed(),
        finalize: Any = None,
        health_check: Any = None,
        rank_assignment: Any = None,
        rank_filter: Any = None,
        monitor_thread_interval: Optional[datetime.timedelta] = None,
        monitor_process_interval: Optional[datetime.timedelta] = None,
        heartbeat_interval: Optional[datetime.timedelta] = None,
        progress_watchdog_interval: Optional[datetime.timedelta] = None,
        soft_timeout: Optional[datetime.timedelta] = None,
        hard_timeout: Optional[datetime.timedelta] = None,
        heartbeat_timeout: Optional[datetime.timedelta] = None,
        barrier_timeout: Optional[datetime.timedelta] = None,
        completion_timeout: Optional[datetime.timedelta] = None,
        last_call_wait: Optional[datetime.timedelta] = None,
        termination_grace_time: Optional[datetime.timedelta] = None,
        monitor_process_logfile: Optional[str] = None,
        monitor_process_pidfile: Optional[str] = None,
        enabled: bool = True,
        completion: Any = None,
        terminate: Any = None,
        **of_muster: Any,
    ) -> None:
        if rank_filter is not None:
            rank_assignment = Compose(rank_filter, *([rank_assignment] if rank_assignment else []))
        super().__init__(
            store_factory=store_factory,
            store_kwargs=store_kwargs,
            initialize=initialize,
            abort=abort,
            finalize=finalize,
            health_check=health_check,
            rank_assignment=None if rank_assignment is None else assignment_of(rank_assignment),
            monitor_thread_interval=monitor_thread_interval,
            monitor_process_interval=monitor_process_interval,
            heartbeat_interval=heartbeat_interval,
            progress_watchdog_interval=progress_watchdog_interval,
            soft_timeout=soft_timeout,
            hard_timeout=hard_timeout,
            heartbeat_timeout=heartbeat_timeout,
            barrier_timeout=barrier_timeout,
            completion_timeout=completion_timeout,
            last_call_wait=last_call_wait,
            termination_grace_time=termination_grace_time,
            monitor_process_logfile=monitor_process_logfile,
            monitor_process_pidfile=monitor_process_pidfile,
            enabled=enabled,
            completion=completion,
            terminate=terminate,
            **of_muster,
        )

    def __call__(self, fn: Callable[..., Any]) -> Callable[..., Any]:
        wrapped = super().__call__(fn)
        if not self.enabled:
            return wrapped

        @functools.wraps(fn)
        def run(*args: Any, **kwargs: Any) -> Any:
            try:
                return wrapped(*args, **kwargs)
            except Unhealthy as error:
                raise HealthCheckError(error.text) from error.__cause__ or error
            except (Failed, TooFew) as error:
                kind: Type[BaseException] = RestartAbort
                if error.why in ALONE:
                    kind = InternalError
                raise kind(error.text) from error.__cause__ or error

        return run
