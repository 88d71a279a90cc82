# SPDX-License-Identifier: Apache-2.0
"""After the function has left, before the next attempt."""

from __future__ import annotations

import datetime
from typing import Any, Callable, Optional

from . import _thread
from ._callback import Callback
from .state import FrozenState


class Finalize(Callback):
    """A base for what brings the process into a state from which the function can be called again. What
    it raises ends this process's run."""


class ThreadedFinalize(Finalize):
    """fn(*args, **kwargs) on a thread of its own. After `timeout` TimeoutError is raised."""

    def __init__(
        self,
        timeout: datetime.timedelta,
        fn: Callable[..., Any],
        args: Optional[tuple[Any, ...]] = (),
        kwargs: Optional[dict[str, Any]] = None,
    ) -> None:
        self.timeout = timeout
        self.fn = fn
        self.args = args or ()
        self.kwargs = kwargs or {}

    def __call__(self, state: FrozenState) -> FrozenState:
        _thread.run(
            f"ThreadedFinalize of rank {state.rank}",
            self.timeout,
            lambda: self.fn(*self.args, **self.kwargs),
        )
        return state
