# SPDX-License-Identifier: Apache-2.0
"""Before each attempt."""

from __future__ import annotations

from typing import Optional

from ._callback import Callback
from .exception import RestartAbort
from .state import FrozenState


class Initialize(Callback):
    """A base for what is called before each attempt. What it raises is a fault of this process: all
    begin again."""


class RetryController(Initialize):
    """Ends the run on all ranks where the attempt would be one too many, or has too few ranks. Wrapper
    has iterations_max and min_size for that, which wait for a replacement before they give up."""

    def __init__(
        self,
        max_iterations: Optional[int] = None,
        min_world_size: int = 1,
        min_active_world_size: int = 1,
    ) -> None:
        self.max_iterations = max_iterations
        self.min_world_size = min_world_size
        self.min_active_world_size = min_active_world_size

    def __call__(self, state: FrozenState) -> FrozenState:
        if self.max_iterations is not None and state.iteration >= self.max_iterations:
            raise RestartAbort(
                f"attempt {state.iteration + 1} is not begun: max_iterations is {self.max_iterations}"
            )
        for size, least, what in (
            (state.world_size, self.min_world_size, "min_world_size"),
            (state.active_world_size, self.min_active_world_size, "min_active_world_size"),
        ):
            if size is not None and size < least:
                raise RestartAbort(f"{size} ranks are left: {what} is {least}")
        return state
