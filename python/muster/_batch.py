# SPDX-License-Identifier: Apache-2.0
"""Several writes of keys that are applied atomically."""

from __future__ import annotations

from ._c import milliseconds, name_of, slice_of, text_of
from ._errors import check, error_of
from ._muster import ffi, lib
from ._wait import Handle

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Optional

    from ._c import Text


class Batch:
    """Collects writes. At the end of `with` all are applied, or none if one of them fails: then the
    exception is that of the first that failed, and names its key. After an exception in the block none is applied. One
    thread at a time."""

    def __init__(self, handle: Handle, options: Any, timeout: Optional[float]) -> None:
        out = ffi.new("muster_batch **")
        check(lib.muster_batch_new(out, options), None)
        self._handle = handle
        self._timeout = timeout
        self._batch = ffi.gc(out[0], lib.muster_batch_free)
        self._count = 0

    def _add(self, what: str, key: Text, status: int) -> None:
        if status < 0:
            why = "the key is empty" if not key else text_of(lib.muster_status_text(status))
            raise error_of(status, f"batch: {what} {key!r}: {why}")
        self._count += 1

    def __len__(self) -> int:
        return self._count

    def put(self, key: Text, value: Any) -> None:
        """Writes the key."""
        data, _kept = slice_of(value)
        self._add("put", key, lib.muster_batch_put(self._batch, name_of(key), data))

    def insert(self, key: Text, value: Any) -> None:
        """Writes the key if it does not exist, else Exists."""
        data, _kept = slice_of(value)
        self._add("insert", key, lib.muster_batch_insert(self._batch, name_of(key), data))

    def cas(self, key: Text, expected: Any, value: Any) -> None:
        """`expected`: a revision (0: the key does not exist), or a Value that was read."""
        data, _kept = slice_of(value)
        revision = getattr(expected, "revision", expected)
        self._add("cas", key, lib.muster_batch_cas(self._batch, name_of(key), revision, data))

    def add(self, key: Text, delta: int = 1) -> None:
        """Adds to a key that holds a number."""
        self._add("add", key, lib.muster_batch_add(self._batch, name_of(key), delta))

    def append(self, key: Text, value: Any) -> None:
        """Appends to the value."""
        data, _kept = slice_of(value)
        self._add("append", key, lib.muster_batch_append(self._batch, name_of(key), data))

    def delete(self, key: Text) -> None:
        """Deletes the key."""
        self._add("delete", key, lib.muster_batch_delete(self._batch, name_of(key)))

    def apply(self, timeout: Optional[float] = None) -> None:
        """Applies what was collected; an empty batch does nothing. It may be applied again."""
        if self._count:
            limit = milliseconds(timeout)
            self._handle.call(lib.muster_batch_apply_start, self._batch, limit)

    def __enter__(self) -> Batch:
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        if kind is None:
            self.apply(self._timeout)
