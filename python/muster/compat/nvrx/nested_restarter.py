# SPDX-License-Identifier: Apache-2.0
"""One line in the log for each turn of a run, by the process whose initial rank is `special_rank`. The
log of `muster run` has these turns, and why, without them."""

from __future__ import annotations

import dataclasses
import logging
from typing import Optional

from .abort import Abort
from .completion import Completion
from .initialize import Initialize
from .state import FrozenState
from .terminate import Terminate


@dataclasses.dataclass
class NestedRestarterCallback:
    """What the others are made of: a line of the state, and of its stage if it has one."""

    restarter_state: str
    restarter_stage: Optional[str] = None
    logger: logging.Logger = dataclasses.field(default_factory=lambda: logging.getLogger("muster"))
    special_rank: int = 0

    def __call__(self, state: FrozenState) -> FrozenState:
        if state.initial_rank == self.special_rank:
            stage = f" ({self.restarter_stage})" if self.restarter_stage else ""
            self.logger.info("in-process restart, attempt %d: %s%s", state.iteration + 1, self.restarter_state, stage)
        return state


@dataclasses.dataclass
class NestedRestarterHandlingCompleted(NestedRestarterCallback, Initialize):
    """The first attempt begins; then: a fault has been handled."""

    restarter_state: str = "initialize"

    def __init__(self, special_rank: int = 0) -> None:
        super().__init__("initialize", special_rank=special_rank)

    def __call__(self, state: FrozenState) -> FrozenState:
        super().__call__(state)
        self.restarter_state, self.restarter_stage = "handling", "completed"
        return state


@dataclasses.dataclass
class NestedRestarterHandlingStarting(NestedRestarterCallback, Abort):
    """A fault begins to be handled."""

    restarter_state: str = "handling"
    restarter_stage: Optional[str] = "starting"


@dataclasses.dataclass
class NestedRestarterFinalized(NestedRestarterCallback, Completion):
    """The function has returned on all ranks."""

    restarter_state: str = "finalized"


@dataclasses.dataclass
class NestedRestarterAborted(NestedRestarterCallback, Terminate):
    """The run ends by a failure."""

    restarter_state: str = "aborted"
