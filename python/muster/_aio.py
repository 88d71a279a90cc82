# SPDX-License-Identifier: Apache-2.0
"""The calls that wait, in an event loop of asyncio: by the client's descriptor, without a thread."""

from __future__ import annotations

import asyncio
import os
import threading
from typing import Any, Callable, Dict, List, Optional, Set, Tuple, Union

from . import _rounds
from ._c import members_of, milliseconds, slice_of, string_of
from ._errors import Cancelled, Error, NotFound, check
from ._keys import Value, listed, options_of
from ._muster import ffi, lib
from ._wait import Handle
from ._watch import Event, Watch

Text = Union[str, bytes]
Loop = asyncio.AbstractEventLoop
_waiting: Dict[int, Tuple[Loop, "asyncio.Future[None]"]] = {}  # by the address of the call


def _address(call: Any) -> int:
    return int(ffi.cast("uintptr_t", call))


def _finish(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)


def _wake(address: int) -> None:
    """The call is over: who awaits it runs soon, in its own loop."""
    loop, future = _waiting.pop(address, (None, None))
    if loop is not None and future is not None and not loop.is_closed():
        loop.call_soon_threadsafe(_finish, future)


@ffi.def_extern()
def muster_python_call_ended(_ctx: Any, call: Any) -> None:
    _wake(_address(call))


class Aio:
    """Coroutines with the arguments of the methods of the same name of muster.Job. Cancelling the
    task cancels the call: a write may or may not be applied, and a started round has used up its
    number. Start rounds in the same order on all ranks. Any number of loops may share a job."""

    def __init__(self, handle: Handle) -> None:
        self._handle = handle
        self._lock = threading.Lock()
        self._loops: Dict[Loop, int] = {}  # its copy of the descriptor
        self._open: Set[int] = set()
        self.keys = AioKeys(self)

    def _attend(self, loop: Loop) -> None:
        """The loop dispatches the calls that end. With a descriptor of its own, which outlives the
        client's, so that it can be removed in the loop's own thread."""
        with self._lock:
            if loop in self._loops:
                return
            for old in [other for other in self._loops if other.is_closed()]:
                os.close(self._loops.pop(old))
            out = ffi.new("int *")
            err = ffi.new("struct muster_error *")
            with self._handle.lock:
                check(lib.muster_client_fd(self._handle.get(), out, err), err)
                copy = os.dup(out[0])
            self._loops[loop] = copy
        loop.add_reader(copy, self._dispatch)

    def _dispatch(self) -> None:
        with self._handle.lock:
            if self._handle.client is not None:
                lib.muster_client_dispatch(self._handle.client)

    def closed(self) -> None:
        """The client is: what is awaited ends with Cancelled."""
        for address in list(self._open):
            _wake(address)
        with self._lock:
            loops, self._loops = self._loops, {}
        for loop, copy in loops.items():
            if loop.is_closed():
                os.close(copy)
            else:
                loop.call_soon_threadsafe(_leave, loop, copy)

    async def call(
        self, start: Callable[..., int], *args: Any, over: Callable[[], None] = lambda: None
    ) -> None:
        """start(client, *args, call_out, err), awaited. Whatever ends this, the call is over."""
        loop = asyncio.get_running_loop()
        self._attend(loop)
        future: asyncio.Future[None] = loop.create_future()
        box = ffi.new("muster_call **")
        err = ffi.new("struct muster_error *")
        address = 0
        try:
            with self._handle.lock:
                check(start(self._handle.get(), *args, box, err), err)
                address = _address(box[0])
                _waiting[address] = loop, future
                self._open.add(address)
                lib.muster_call_on_done(box[0], lib.muster_python_call_ended, ffi.NULL)
            await future
            check(lib.muster_call_wait(box[0], 0, err), err)
        finally:
            _waiting.pop(address, None)
            self._open.discard(address)
            over()
            lib.muster_call_free(box[0])

    async def barrier(self, name: Text, timeout: Optional[float] = None) -> None:
        await self.call(lib.muster_barrier_wait_start, string_of(name), milliseconds(timeout))

    async def round(
        self,
        name: Text,
        data: Any = b"",
        *,
        reduce: Any = "none",
        on_loss: Any = "fail",
        participants: Any = None,
        deadline: Optional[float] = None,
        present_only: bool = False,
        root: int = 0,
        timeout: Optional[float] = None,
    ) -> Any:
        mine = _rounds.Contribution(
            string_of(name),
            data,
            reduce,
            on_loss,
            participants,
            deadline,
            present_only,
            root,
            timeout,
        )
        try:
            await self.call(lib.muster_round_join_start, *mine.args)
            return mine.result()
        except Error as failure:
            mine.explain(failure)
            raise
        finally:
            mine.free()

    async def broadcast(
        self, name: Text, data: Any = b"", *, root: int = 0, timeout: Optional[float] = None
    ) -> bytes:
        result = await self.round(name, data, reduce="broadcast", root=root, timeout=timeout)
        value: bytes = result.value
        return value

    async def members(self, *, timeout: Optional[float] = None) -> List[Any]:
        out = ffi.new("muster_members **")
        try:
            await self.call(lib.muster_member_list_start, milliseconds(timeout), out)
            members: List[Any] = members_of(out)
            return members
        finally:
            lib.muster_members_free(out[0])

    def watch(
        self, prefix: Text = "", *, kinds: Any = "keys", generation: int = 0, after: int = 0
    ) -> AioWatch:
        """`async for event in job.aio.watch(prefix)`"""
        return AioWatch(self, self._handle, prefix, kinds, generation, after)

    async def leave(self, timeout: Optional[float] = None) -> None:
        await self.call(lib.muster_member_leave_start, milliseconds(timeout))

    async def fault(
        self, code: int, text: Optional[Text] = None, timeout: Optional[float] = None
    ) -> None:
        line = ffi.NULL if text is None else string_of(text)
        await self.call(lib.muster_member_fault_start, code, line, milliseconds(timeout))


def _leave(loop: Loop, copy: int) -> None:
    loop.remove_reader(copy)
    os.close(copy)


class AioWatch(Watch):
    """A Watch of an event loop. `next` is a coroutine here, and `async for` takes the events."""

    def __init__(self, aio: Aio, *args: Any) -> None:
        super().__init__(*args)
        self._aio = aio

    async def next(self, timeout: Optional[float] = None) -> Event:  # type: ignore[override]
        await self._aio.call(self.start, milliseconds(timeout), over=self.over)
        return self.taken()

    def __aiter__(self) -> AioWatch:
        return self

    async def __anext__(self) -> Event:
        try:
            return await self.next()
        except Cancelled:
            if self._closed:
                raise StopAsyncIteration from None
            raise


class AioKeys:
    """The methods of muster.Keys of the same name, as coroutines."""

    def __init__(self, aio: Aio) -> None:
        self._aio = aio

    async def _write(
        self, start: Any, key: Text, args: List[Any], owned: bool, generation: int, timeout: Any, out: Any
    ) -> Any:
        tail = [] if out is None else [out]
        options = options_of(generation, owned)
        await self._aio.call(
            start, string_of(key), *args, options, milliseconds(timeout), *tail
        )
        return None if out is None else out[0]

    async def _write_value(
        self, start: Any, key: Text, before: List[Any], value: Any, owned: bool, generation: int, timeout: Any
    ) -> int:
        data, _kept = slice_of(value)
        out = ffi.new("uint64_t *")
        number: int = await self._write(start, key, [*before, data], owned, generation, timeout, out)
        return number

    async def put(
        self,
        key: Text,
        value: Any,
        *,
        owned: bool = False,
        generation: int = 0,
        timeout: Optional[float] = None,
    ) -> int:
        start = lib.muster_key_put_start
        return await self._write_value(start, key, [], value, owned, generation, timeout)

    async def insert(
        self,
        key: Text,
        value: Any,
        *,
        owned: bool = False,
        generation: int = 0,
        timeout: Optional[float] = None,
    ) -> int:
        start = lib.muster_key_insert_start
        return await self._write_value(start, key, [], value, owned, generation, timeout)

    async def cas(
        self,
        key: Text,
        expected: Any,
        value: Any,
        *,
        owned: bool = False,
        generation: int = 0,
        timeout: Optional[float] = None,
    ) -> int:
        start = lib.muster_key_cas_start
        revision = getattr(expected, "revision", expected)
        return await self._write_value(start, key, [revision], value, owned, generation, timeout)

    async def add(
        self,
        key: Text,
        delta: int = 1,
        *,
        owned: bool = False,
        generation: int = 0,
        timeout: Optional[float] = None,
    ) -> int:
        out = ffi.new("int64_t *")
        start = lib.muster_key_add_start
        total: int = await self._write(start, key, [delta], owned, generation, timeout, out)
        return total

    async def append(
        self,
        key: Text,
        value: Any,
        *,
        owned: bool = False,
        generation: int = 0,
        timeout: Optional[float] = None,
    ) -> int:
        start = lib.muster_key_append_start
        return await self._write_value(start, key, [], value, owned, generation, timeout)

    async def delete(
        self, key: Text, *, generation: int = 0, timeout: Optional[float] = None
    ) -> None:
        start = lib.muster_key_delete_start
        await self._write(start, key, [], False, generation, timeout, None)

    async def delete_prefix(
        self, prefix: Text, *, generation: int = 0, timeout: Optional[float] = None
    ) -> int:
        start = lib.muster_key_delete_prefix_start
        out = ffi.new("uint64_t *")
        count: int = await self._write(start, prefix, [], False, generation, timeout, out)
        return count

    async def get(
        self,
        key: Text,
        default: Any = None,
        *,
        generation: int = 0,
        timeout: Optional[float] = 0,
    ) -> Any:
        """With a timeout (None: without limit) the key is waited for."""
        out = ffi.new("muster_value **")
        options = options_of(generation, False)
        try:
            await self._aio.call(
                lib.muster_key_get_start, string_of(key), options, milliseconds(timeout), out
            )
            data = ffi.buffer(lib.muster_value_data(out[0]), lib.muster_value_size(out[0]))
            return Value.of(data, lib.muster_value_revision(out[0]))
        except NotFound:
            return default
        finally:
            lib.muster_value_free(out[0])

    async def list(
        self, prefix: Text = "", *, generation: int = 0, timeout: Optional[float] = None
    ) -> Dict[str, Value]:
        out = ffi.new("muster_keys **")
        options = options_of(generation, False)
        try:
            await self._aio.call(
                lib.muster_key_list_start, string_of(prefix), options, milliseconds(timeout), out
            )
            found: Dict[str, Value] = listed(out[0])
            return found
        finally:
            lib.muster_keys_free(out[0])

    async def wait(
        self, *keys: Text, generation: int = 0, timeout: Optional[float] = None
    ) -> None:
        names = [string_of(key) for key in keys]
        await self._aio.call(
            lib.muster_key_wait_start,
            ffi.new("char *[]", names),
            len(names),
            options_of(generation, False),
            milliseconds(timeout),
        )
