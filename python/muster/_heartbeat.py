# SPDX-License-Identifier: Apache-2.0
"""The collective heartbeat."""

from __future__ import annotations

from ._c import options_of
from ._errors import check
from ._muster import ffi, lib

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Dict

    from ._wait import Handle


class Heartbeat:
    """One that runs. It goes on by itself; a context manager that stops it."""

    def __init__(self, handle: Handle, heartbeat: Any) -> None:
        self._handle = handle
        self._heartbeat = heartbeat

    def __enter__(self) -> Heartbeat:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def stop(self) -> None:
        """From now on it does not end this process. No peer counts that as a failure."""
        with self._handle.lock:
            if self._handle.client is not None:
                lib.muster_heartbeat_stop(self._heartbeat)


def start(handle: Handle, given: Dict[str, Any]) -> Heartbeat:
    options, _kept = options_of(lib.muster_heartbeat_options_init, given, "heartbeat")
    options.on_crash = lib.muster_python_crash_address()

    def begin(client: Any) -> Any:
        out = ffi.new("muster_heartbeat **")
        err = ffi.new("struct muster_error *")
        check(lib.muster_heartbeat_start(out, client, options, err), err)
        return out[0]

    return Heartbeat(handle, handle.beside(begin, lib.muster_heartbeat_stop))
