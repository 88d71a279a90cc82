# SPDX-License-Identifier: Apache-2.0
"""Where a process stands. Callbacks get a FrozenState; a rank assignment of a program's own, which
changes it, a State."""

from __future__ import annotations

import dataclasses
import os
from typing import Any, Iterable, Optional

from ..._state import Mode, State as FrozenState

__all__ = ["FrozenState", "Mode", "State"]


@dataclasses.dataclass
class State:
    """Where a process stands, for a rank assignment to change; a FrozenState has the same fields."""

    rank: Optional[int]
    world_size: int
    active_rank: Optional[int] = None
    active_world_size: Optional[int] = None
    initial_rank: Optional[int] = None
    initial_world_size: Optional[int] = None
    iteration: int = 0
    mode: Mode = Mode.INITIALIZED
    fn_exception: Optional[BaseException] = None

    def __post_init__(self) -> None:
        if self.initial_rank is None:
            self.initial_rank = self.rank
        if self.initial_world_size is None:
            self.initial_world_size = self.world_size

    @classmethod
    def from_env(cls) -> State:
        """Of RANK and WORLD_SIZE, else of a job of one."""
        return cls(int(os.environ.get("RANK", 0)), int(os.environ.get("WORLD_SIZE", 1)))

    def set_distributed_vars(self) -> None:
        """Sets RANK and WORLD_SIZE to the active ones."""
        os.environ.update(RANK=str(self.active_rank), WORLD_SIZE=str(self.active_world_size))

    def advance(self) -> None:
        """To the next iteration."""
        self.iteration, self.fn_exception = self.iteration + 1, None

    def freeze(self) -> FrozenState:
        """A copy that cannot be changed."""
        return FrozenState(*(getattr(self, field.name) for field in dataclasses.fields(self)))

    def copy_from(self, other: Any, fields: Optional[Iterable[str]] = None) -> None:
        """Takes these fields of another one, or all."""
        for field in dataclasses.fields(self):
            if fields is None or field.name in fields:
                setattr(self, field.name, getattr(other, field.name))
