# SPDX-License-Identifier: Apache-2.0
"""The job's keys."""

from __future__ import annotations

from ._batch import Batch
from ._c import bytes_of, milliseconds, name_of, string_of, taken
from ._errors import NotFound, check
from ._muster import ffi, lib, make, make_with
from ._wait import MORE

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable, Dict, Iterator, Optional, Tuple, TypeVar, Union, overload

    from ._c import Text
    from ._wait import Handle

    _D = TypeVar("_D")


PUT, INSERT, CAS = lib.MUSTER_PYTHON_PUT, lib.MUSTER_PYTHON_INSERT, lib.MUSTER_PYTHON_CAS
APPEND, ADD, READ = lib.MUSTER_PYTHON_APPEND, lib.MUSTER_PYTHON_ADD, lib.MUSTER_PYTHON_READ
DELETE, DELETE_PREFIX = lib.MUSTER_PYTHON_DELETE, lib.MUSTER_PYTHON_DELETE_PREFIX
AWAIT = lib.MUSTER_PYTHON_AWAIT
BOX = ffi.typeof("struct muster_python_box *")
buffer = ffi.buffer


class Value(bytes):
    """The bytes of a key, and their `revision` for cas()."""

    revision = 0

    @classmethod
    def of(cls, data: Any, revision: int) -> Value:
        """The bytes `data` with that revision."""
        value = cls(data)
        value.revision = revision
        return value


def finish(status: int, address: int) -> Optional[Value]:
    """What make() leaves to Python: a wait that a signal or its first 250 ms have ended, a failure,
    and the Value of a key. Its steps are where a handler of a signal may raise."""
    box = ffi.cast(BOX, address)
    while status == MORE:
        status = lib.muster_python_wait(box)
    if status:
        check(status, box.err)
    if not box.value:
        return None
    value = Value(buffer(box.data, box.size))
    value.revision = box.revision
    return value


make_with(name_of, milliseconds, finish)


def options_of(generation: int, owned: bool) -> Any:
    options = ffi.new("struct muster_key_options *", lib.muster_key_options_init())
    options.generation = generation
    options.owned = owned
    return options


def listed(keys: Any) -> Dict[str, Value]:
    """{name: Value} of a muster_keys."""
    return {
        ffi.string(lib.muster_keys_name(keys, i)).decode(errors="surrogateescape"): Value.of(
            taken(lib.muster_keys_value(keys, i)) or b"", lib.muster_keys_revision(keys, i)
        )
        for i in range(lib.muster_keys_count(keys))
    }


class Keys:
    """Keys are str or bytes, values bytes (a str is written as UTF-8). Reading is like a dict's.

    `generation`: 0 is the job's keys; else the key space of that generation, where a stale process
    can write nothing. `owned`: the key vanishes with this process. `timeout`: in seconds; None
    waits for the service as long as it is away."""

    def __init__(self, handle: Handle) -> None:
        self._handle = handle

    def put(
        self, key: Text, value: Text, *, owned: bool = False, generation: int = 0, timeout: Optional[float] = None
    ) -> int:
        """Writes the key; its new revision."""
        made: int = make(self._handle.address, PUT, key, bytes_of(value), 0, generation, owned, timeout)
        return made

    def insert(
        self, key: Text, value: Text, *, owned: bool = False, generation: int = 0, timeout: Optional[float] = None
    ) -> int:
        """Writes the key if it does not exist, else Exists; its revision."""
        made: int = make(self._handle.address, INSERT, key, bytes_of(value), 0, generation, owned, timeout)
        return made

    def cas(
        self,
        key: Text,
        expected: Union[int, Value],
        value: Text,
        *,
        owned: bool = False,
        generation: int = 0,
        timeout: Optional[float] = None,
    ) -> int:
        """Writes the key if its revision is `expected` (0: it does not exist; or a Value that was
        read), else Conflict; its new revision."""
        revision = expected.revision if isinstance(expected, Value) else expected
        made: int = make(
            self._handle.address, CAS, key, bytes_of(value), revision, generation, owned, timeout
        )
        return made

    def add(
        self, key: Text, delta: int = 1, *, owned: bool = False, generation: int = 0, timeout: Optional[float] = None
    ) -> int:
        """Adds to a key that holds a number, an absent one counts as 0; the sum."""
        made: int = make(self._handle.address, ADD, key, b"", delta, generation, owned, timeout)
        return made

    def append(
        self, key: Text, value: Text, *, owned: bool = False, generation: int = 0, timeout: Optional[float] = None
    ) -> int:
        """Appends to the value; its size then."""
        made: int = make(self._handle.address, APPEND, key, bytes_of(value), 0, generation, owned, timeout)
        return made

    def delete(self, key: Text, *, generation: int = 0, timeout: Optional[float] = None) -> None:
        """Deletes the key; an absent one is no error."""
        make(self._handle.address, DELETE, key, b"", 0, generation, False, timeout)

    def delete_prefix(
        self, prefix: Text, *, generation: int = 0, timeout: Optional[float] = None
    ) -> int:
        """Deletes all keys that begin with `prefix`, which is not empty; how many there were. Up to
        16,384 are deleted together, more in several steps."""
        made: int = make(self._handle.address, DELETE_PREFIX, prefix, b"", 0, generation, False, timeout)
        return made

    def _read(self, key: Text, generation: int, timeout: Optional[float]) -> Value:
        made: Value = make(self._handle.address, READ, key, b"", 0, generation, False, timeout)
        return made

    if TYPE_CHECKING:

        @overload
        def get(
            self, key: Text, default: None = None, *, generation: int = 0, timeout: Optional[float] = 0
        ) -> Optional[Value]:
            ...

        @overload
        def get(
            self, key: Text, default: _D, *, generation: int = 0, timeout: Optional[float] = 0
        ) -> Union[Value, _D]:
            ...

    def get(self, key: Text, default: Any = None, *, generation: int = 0, timeout: Optional[float] = 0) -> Any:
        """The key's Value, or `default`. With a timeout it is waited for, and Timeout raised."""
        try:
            return self._read(key, generation, timeout)
        except NotFound:
            return default

    def list(self, prefix: Text = "", *, generation: int = 0, timeout: Optional[float] = None) -> Dict[str, Value]:
        """{key: Value} of all that begin with `prefix`, in the order of their bytes."""
        out = ffi.new("muster_keys **")
        try:
            self._handle.call(
                lib.muster_key_list_start,
                string_of(prefix),
                options_of(generation, False),
                milliseconds(timeout),
                out,
            )
            return listed(out[0])
        finally:
            lib.muster_keys_free(out[0])

    def wait(self, *keys: Text, generation: int = 0, timeout: Optional[float] = None) -> None:
        """Waits until each of the keys has existed once since this began."""
        names = [name_of(key) for key in keys]
        data = b"\0".join(names)
        make(self._handle.address, AWAIT, b"", data, len(names), generation, False, timeout)

    def batch(
        self, *, owned: bool = False, generation: int = 0, timeout: Optional[float] = None
    ) -> Batch:
        """with job.keys.batch() as batch: its writes are applied together at the end, or none is. See
        Batch."""
        return Batch(self._handle, options_of(generation, owned), timeout)

    def __getitem__(self, key: Text) -> Value:
        return self._read(key, 0, 0)

    def __setitem__(self, key: Text, value: Text) -> None:
        self.put(key, value)

    def __delitem__(self, key: Text) -> None:
        self.delete(key)

    def __contains__(self, key: Text) -> bool:
        return self.get(key) is not None

    def __iter__(self) -> Iterator[str]:
        return iter(self.list())
