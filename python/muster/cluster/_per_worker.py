# SPDX-License-Identifier: Apache-2.0
"""Values that each worker has of its own."""

import threading
from typing import TYPE_CHECKING, Any, NoReturn, Optional

from .. import _pickled as pickled
from .._errors import Status, check
from .._muster import ffi, lib
from .._pickled import local
from ._failures import ClosureError, error_text
from ._pieces import in_pieces

if TYPE_CHECKING:
    from ._coordinator import Coordinator


class PerWorkerValue:
    """A value on each worker. As an argument of a closure, at any depth, it is the one of the worker
    that runs the closure."""

    def __init__(self, coordinator: "Coordinator", value: Any) -> None:
        self._coordinator = coordinator
        self._value = ffi.gc(value, lib.muster_per_worker_drop)
        self._reading = threading.Lock()

    def __reduce__(self) -> Any:
        needs = local.needs
        if needs is None:
            raise TypeError("a per-worker value can only be an argument of a closure")
        if self not in needs:
            needs.append(self)
        return pickled.need, (needs.index(self),)

    def wait(self, worker: int, timeout: Optional[float] = None) -> None:
        """Waits until it is built on the worker of that number; does not start that. Raises what its
        function raised there; muster.Lost: the worker is away."""
        err = ffi.new("struct muster_error *")
        status = in_pieces(
            lambda ms: lib.muster_per_worker_fetch(self._value, worker, ms, ffi.NULL, ffi.NULL, err), timeout
        )
        if status == lib.MUSTER_EFAILED:
            raise self._why(worker) or ClosureError(error_text(err), Status(status))
        check(status, err)

    def _why(self, worker: int) -> Optional[BaseException]:
        """What its function raised. The parts are the handle's, until the next one asks for them."""
        parts, count = ffi.new("const struct muster_part **"), ffi.new("size_t *")
        with self._reading:
            lib.muster_per_worker_fetch(self._value, worker, 0, parts, count, ffi.NULL)
            listed = [pickled.bytes_of_part(parts[0][i]) for i in range(count[0])] if parts[0] else []
        return pickled.exception_of_parts(listed)


PerWorkerValues = PerWorkerValue  # the reference's name


class PerWorkerIterator(PerWorkerValue):
    """An iterator on each worker: next() is for the functions that it is passed to."""

    def __iter__(self) -> "PerWorkerIterator":
        return self

    def __next__(self) -> NoReturn:
        raise TypeError("the iterator is on the workers: pass it to a closure, which calls next()")


class PerWorkerDataset:
    """What create_per_worker_dataset returns: each iter() of it is a new PerWorkerIterator, which
    begins at the beginning."""

    def __init__(self, coordinator: "Coordinator", dataset: Any) -> None:
        self._coordinator = coordinator
        self._dataset = ffi.gc(dataset, lib.muster_dataset_drop)

    def __iter__(self) -> PerWorkerIterator:
        out, err = ffi.new("muster_per_worker **"), ffi.new("struct muster_error *")
        check(lib.muster_dataset_iterate(self._dataset, out, err), err)
        return PerWorkerIterator(self._coordinator, out[0])
