# SPDX-License-Identifier: Apache-2.0
"""What makes the blocking calls of an interrupted function return."""

from __future__ import annotations

import importlib
import sys
from typing import Any, Optional

from ._callback import Callback
from .state import FrozenState


class Abort(Callback):
    """A base for what is called on a thread of its own while the interrupted function still runs."""


class AbortTorchDistributed(Abort):
    """muster.torch.abort: of all process groups, NCCL's and gloo's. Wrapper's default; it destroys the
    groups when the function has left (muster.torch.finalize)."""

    def __init__(self, torch_fr_trace_path: Optional[str] = None) -> None:
        if torch_fr_trace_path is not None:
            raise ValueError(
                "torch_fr_trace_path: no trace is collected; set TORCH_NCCL_DEBUG_INFO_TEMP_FILE and"
                " TORCH_NCCL_DUMP_ON_TIMEOUT, of torch itself"
            )
        self.torch_fr_trace_path = torch_fr_trace_path

    def __call__(self, state: FrozenState) -> FrozenState:
        if "torch.distributed" in sys.modules:
            importlib.import_module("muster.torch").abort(state)
        return state


class AbortTransformerEngine(Abort):
    """Gives the buffers back in which Transformer Engine overlaps communication, if it is imported."""

    def __call__(self, state: FrozenState) -> FrozenState:
        base = sys.modules.get("transformer_engine.pytorch.module.base")
        if base is not None:
            base.destroy_ub()
        return state


def __getattr__(name: str) -> Any:
    if name == "AbortPersistentCheckpointProcesses":
        raise AttributeError(
            f"{name}: the processes are those of nvidia_resiliency_ext's checkpointing; compose its own"
        )
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
