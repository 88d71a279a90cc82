# SPDX-License-Identifier: Apache-2.0
"""What torch.distributed asks of a store, over the keys of one generation. torch itself is not needed
here: muster.torch.Store is this class and torch's own."""

from __future__ import annotations

import datetime
from typing import TYPE_CHECKING, Any, Iterable, List, Optional, Sequence, Tuple, Type, Union

from ._errors import Conflict, Limit, Timeout

if TYPE_CHECKING:
    from ._keys import Keys, Value

Text = Union[str, bytes]
TOGETHER = 128  # writes of one batch: the service's own limit, unless --batch-max says another


def bytes_of(value: Text) -> bytes:
    return value.encode() if isinstance(value, str) else bytes(value)


class KeyStore:
    """The methods have torch's names and meanings. Its C++ calls two of them by other names than its
    Python does (deleteKey, getNumKeys), so both are here. Any thread may call them."""

    expired: Type[Exception] = TimeoutError  # raised where a key does not come in time
    timeout = datetime.timedelta(seconds=300)

    def __init__(self, keys: Keys, generation: int, prefix: str) -> None:
        self._keys = keys
        self._generation = generation
        self._prefix = prefix

    def _name(self, key: str) -> str:
        return self._prefix + key

    def _now(self, name: str) -> Optional[Value]:
        found: Optional[Value] = self._keys.get(name, generation=self._generation)
        return found

    def set(self, key: str, value: Text) -> None:
        self._keys.put(self._name(key), value, generation=self._generation)

    def get(self, key: str) -> bytes:
        """Waits for the key."""
        limit = self.timeout.total_seconds()
        try:
            found = self._keys.get(self._name(key), generation=self._generation, timeout=limit)
        except Timeout as failure:
            raise self._late([key], limit) from failure
        if found is None:  # there is no time to wait at all
            raise self._late([key], limit)
        return bytes(found)

    def add(self, key: str, amount: int) -> int:
        total: int = self._keys.add(self._name(key), amount, generation=self._generation)
        return total

    def append(self, key: str, value: Text) -> None:
        self._keys.append(self._name(key), value, generation=self._generation)

    def compare_set(self, key: str, expected: Text, desired: Text) -> bytes:
        """The value afterwards; `expected` of an absent key that was expected to have one."""
        name, wanted = self._name(key), bytes_of(expected)
        while True:
            seen = self._now(name)
            if seen is None and wanted:
                return wanted
            if seen is not None and bytes(seen) != wanted:
                return bytes(seen)
            try:
                revision = 0 if seen is None else seen.revision
                self._keys.cas(name, revision, desired, generation=self._generation)
                return bytes_of(desired)
            except Conflict:
                pass  # another rank was faster: what it wrote is compared

    def check(self, keys: Iterable[str]) -> bool:
        return all(self._now(self._name(key)) is not None for key in keys)

    def wait(self, keys: Sequence[str], timeout: Optional[datetime.timedelta] = None) -> None:
        limit = (self.timeout if timeout is None else timeout).total_seconds()
        if not keys:
            return
        names = [self._name(key) for key in keys]
        try:
            self._keys.wait(*names, generation=self._generation, timeout=limit)
        except Timeout as failure:
            raise self._late([key for key in keys if not self.check([key])], limit) from failure

    def _late(self, keys: Sequence[str], limit: float) -> Exception:
        return self.expired(
            f"torch's store of generation {self._generation}: no rank has set {', '.join(keys)} "
            f"within {limit:g} s; look which rank has not come to init_process_group or new_group"
        )

    def delete_key(self, key: str) -> bool:
        """Whether it was there."""
        name = self._name(key)
        was = self._now(name) is not None
        self._keys.delete(name, generation=self._generation)
        return was

    def list_keys(self) -> List[str]:
        found: Any = self._keys.list(self._prefix, generation=self._generation)
        return [name[len(self._prefix) :] for name in found]

    def num_keys(self) -> int:
        return len(self.list_keys())

    def multi_get(self, keys: Sequence[str]) -> List[bytes]:
        return [self.get(key) for key in keys]

    def multi_set(self, keys: Iterable[str], values: Iterable[Text]) -> None:
        pairs = list(zip(keys, values))
        for start in range(0, len(pairs), TOGETHER):
            self._set_together(pairs[start : start + TOGETHER])

    def _set_together(self, pairs: Sequence[Tuple[str, Text]]) -> None:
        try:
            with self._keys.batch(generation=self._generation) as batch:
                for key, value in pairs:
                    batch.put(self._name(key), value)
        except Limit:  # of their bytes, or a service that takes fewer
            for key, value in pairs:
                self.set(key, value)

    def has_extended_api(self) -> bool:
        return True

    def clone(self) -> KeyStore:
        """For another thread: any may use this one."""
        return self

    deleteKey = delete_key
    getNumKeys = num_keys
