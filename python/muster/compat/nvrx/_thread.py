# SPDX-License-Identifier: Apache-2.0
"""Something that may never end, with a limit."""

from __future__ import annotations

import datetime
import os
import sys
import threading
from typing import Any, Callable

from .exception import TimeoutError


def device() -> Any:
    """The GPU of this process, where it uses one; None: there is none that a fault could have broken."""
    torch = sys.modules.get("torch")
    if torch is None or not torch.cuda.is_available() or not torch.cuda.is_initialized():
        return None
    local = os.environ.get("LOCAL_RANK")
    return torch.device("cuda", torch.cuda.current_device() if local is None else int(local))


def run(what: str, limit: datetime.timedelta, function: Callable[[], Any]) -> None:
    """function() on a thread of its own, for the GPU of this one. What it raises is raised."""
    raised: list[BaseException] = []
    uses = device()

    def call() -> None:
        try:
            if uses is not None:
                sys.modules["torch"].cuda.set_device(uses)
            function()
        except BaseException as failure:
            raised.append(failure)

    thread = threading.Thread(target=call, name=what, daemon=True)
    thread.start()
    thread.join(limit.total_seconds())
    if thread.is_alive():
        raise TimeoutError(f"{what} has not ended after {limit.total_seconds():g} s")
    if raised:
        raise raised[0]
