# SPDX-License-Identifier: Apache-2.0
"""What callbacks of a restarted function are given: where this process stands."""

import dataclasses
import enum
from typing import Any, Callable, Optional


class Mode(enum.Enum):
    """What a process does in an attempt."""

    INITIALIZED = 1  # no attempt has begun
    ACTIVE = 2  # it runs the function
    INACTIVE = 3  # it waits as a spare
    TERMINATED = 4  # its run has ended


@dataclasses.dataclass(frozen=True)
class State:
    """Where this process stands. `rank` and `world_size` count all processes of the generation,
    `active_rank` and `active_world_size` those that run the function, `initial_rank` and
    `initial_world_size` those at the beginning of the run. `fn_exception` is what the function
    raised in this attempt."""

    rank: Optional[int]
    world_size: int
    active_rank: Optional[int] = None
    active_world_size: Optional[int] = None
    initial_rank: Optional[int] = None
    initial_world_size: Optional[int] = None
    iteration: int = 0
    mode: Mode = Mode.INITIALIZED
    fn_exception: Optional[BaseException] = None


class Compose:
    """Compose(a, b, c)(state) is a(b(c(state))): the last is called first. One that returns None
    passes on what it was given. Of rank assignments it is the list of steps, the last one first."""

    instances: "tuple[Callable[..., Any], ...]"

    def __init__(self, *instances: Callable[..., Any]) -> None:
        self.instances = instances

    def __call__(self, given: Any) -> Any:
        for instance in reversed(self.instances):
            returned = instance(given)
            given = given if returned is None else returned
        return given
