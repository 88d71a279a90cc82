# SPDX-License-Identifier: Apache-2.0
"""The names of nvidia_resiliency_ext.inprocess, over muster. A program changes one import:

    import muster.compat.nvrx as inprocess

docs/python/restart.md says what is different."""

from . import (
    abort,
    completion,
    compose,
    exception,
    finalize,
    health_check,
    initialize,
    monitor_thread,
    nested_restarter,
    rank_assignment,
    rank_filter,
    state,
    terminate,
    wrap,
)
from .compose import Compose
from .state import FrozenState, Mode, State
from .wrap import CallWrapper, Wrapper

__all__ = [name for name in dir() if not name.startswith("_")]
