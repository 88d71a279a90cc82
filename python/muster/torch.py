# SPDX-License-Identifier: Apache-2.0
"""torch.distributed in a function that muster restarts: where its ranks meet, and how its process
groups end in the middle of an attempt.

    @muster.Wrapper()
    def train(call: muster.Call):
        muster.torch.init(call, "gloo")
        model = DistributedDataParallel(Model())

Ranks meet over muster's keys, in the key space of the generation: there is no port, no host and no
rank 0 that must live, and nothing of an earlier attempt is found. docs/python/torch.md is the guide."""

from __future__ import annotations

import contextlib
import datetime
import math
import sys
import threading
import urllib.parse
import weakref
from typing import Any, Iterator, List, Optional, Tuple

import torch.distributed as dist
from torch.distributed.distributed_c10d import _update_default_pg, _world

from . import _connections
from ._call import current
from ._errors import Invalid, Status
from ._store import KeyStore

SCHEME = "muster"
DROP_S = 1.0  # an attempt begins after that also beside groups whose threads gloo holds
_meetings: Any = weakref.WeakKeyDictionary()  # job: (generation, times that init was called in it)
_dropping: List[threading.Thread] = []  # they wait for the end of groups
_excepthook = sys.excepthook  # as it was before the attempt


class Store(KeyStore, dist.Store):  # type: ignore[misc]
    """A torch.distributed.Store over the keys of the generation in which it is made. `call`: the
    muster.Call of the function, or a job. Stores with the same `name` have the same keys."""

    expired = dist.DistStoreError

    def __init__(
        self, call: Any, name: str = "", timeout: Optional[datetime.timedelta] = None
    ) -> None:
        dist.Store.__init__(self)
        job = getattr(call, "job", call)
        KeyStore.__init__(self, job.keys, call.view.generation, f"torch/{name}/")
        if timeout is not None:
            self.set_timeout(timeout)

    timeout = dist.Store.timeout  # kept by torch, which sets it in its own code too


def init(
    call: Any, backend: Optional[str] = None, *, timeout: Any = None, **options: Any
) -> None:
    """torch.distributed.init_process_group for this attempt, with its rank and size. Other options go
    to it as they are.

    `timeout` (seconds or timedelta) is that of the group. Default: hard_timeout of the run, and no
    longer one is useful: gloo has faults in which it holds a rank until its time-out, and at
    hard_timeout the rank would be killed."""
    store, rank, size = _meet(call)
    if timeout is None:
        timeout = _hard_timeout(call)
    elif not isinstance(timeout, datetime.timedelta):
        timeout = datetime.timedelta(seconds=timeout)
    if timeout is not None:
        options["timeout"] = timeout
        store.set_timeout(timeout)
    dist.init_process_group(backend, store=store, rank=rank, world_size=size, **options)


def _hard_timeout(call: Any) -> Optional[datetime.timedelta]:
    """None: there is none, and torch's own default holds."""
    limit = getattr(call, "hard_timeout", math.inf)  # a job alone has none
    return None if math.isinf(limit) else datetime.timedelta(seconds=limit)


def _meet(call: Any) -> Tuple[Store, int, int]:
    """Each meeting of an attempt has keys of its own: all ranks count alike."""
    view = call.view
    if view.rank is None or view.spare:
        raise Invalid(
            f"muster.torch.init: #{view.index} has no rank in generation {view.generation}; call it in "
            "the function that muster.Wrapper runs",
            Status.EINVAL,
        )
    job = getattr(call, "job", call)
    generation, count = _meetings.get(job, (0, 0))
    count = count + 1 if generation == view.generation else 1
    _meetings[job] = view.generation, count
    return Store(call, str(count)), view.rank, view.size


def _rendezvous(url: str, **_: Any) -> Iterator[Tuple[Store, int, int]]:
    """init_process_group(init_method="muster://"): the same, in a line that is already there."""
    store, rank, size = _meet(current())
    asked = dict(urllib.parse.parse_qsl(urllib.parse.urlparse(url).query))
    for name, is_now in (("rank", rank), ("world_size", size)):
        if int(asked.get(name, is_now)) != is_now:
            raise Invalid(
                f"init_process_group: {name}={asked[name]}, but muster gave this process {is_now} in "
                f"this attempt; leave {name} out",
                Status.EINVAL,
            )
    yield store, rank, size


def begin(state: Any = None) -> None:
    """Before an attempt: sockets that are open now are not of its process groups, and abort() leaves
    them alone. Wrapper calls it."""
    global _excepthook
    _excepthook = sys.excepthook
    for thread in list(_dropping):
        thread.join(DROP_S)
        if not thread.is_alive():
            _dropping.remove(thread)
    _connections.begin()


def abort(state: Any = None) -> None:
    """Makes collectives that other threads wait for fail, in all process groups, while the function
    still runs. NCCL has an abort of its own. gloo has none: the connections that it has opened in this
    attempt are shut down, never a listening socket, for which it would end the process. Wrapper's
    default `abort` where torch.distributed is imported."""
    # Each on a thread of its own: one communicator's abort may wait for another's.
    threads = [threading.Thread(target=backend.abort, daemon=True) for backend in _nccl_backends()]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    _connections.shut_down()


def _nccl_backends() -> List[Any]:
    found = []
    for group in list(_world.pg_map):
        for device in getattr(group, "_device_types", ()):
            with contextlib.suppress(RuntimeError):  # it has no backend for it
                backend = group._get_backend(device)
                if backend.name() == "nccl" and backend not in found:
                    found.append(backend)
    return found


def finalize(state: Any = None) -> None:
    """After the function has left: no process group is left, and none of what torch keeps about them,
    so that the next attempt can make its own under the same names. Wrapper's default `finalize`.

    Whoever still has a model of torch's DistributedDataParallel keeps its groups' threads and sockets,
    so Wrapper clears the frames of the function first."""
    held = list(_world.pg_map)
    abort()
    with contextlib.suppress(Exception):  # what failed in the attempt fails again here
        if dist.is_initialized():
            dist.destroy_process_group()
    for table in (
        _world.pg_map,
        _world.pg_names,
        _world.pg_group_ranks,
        _world.pg_backend_config,
        _world.pg_to_tag,
        _world.tags_to_pg,
        _world.pg_coalesce_state,
    ):
        table.clear()
    # One that was cut off in init_process_group has counted already, and a rank that counts otherwise
    # would wait for the others under another name.
    _world.group_count = 0
    _update_default_pg(None)
    with contextlib.suppress(AttributeError):
        dist.distributed_c10d._unregister_all_process_groups()
    # init_process_group puts its hook in front of the one that it finds, for ever: after some attempts
    # each line of an exception would begin with as many ranks.
    if getattr(sys.excepthook, "__module__", None) == dist.distributed_c10d.__name__:
        sys.excepthook = _excepthook
    if held:
        # The last reference goes here, where torch gives up the interpreter's lock while it waits for
        # the threads of a group. Where a Reducer has it, torch does not, and its threads want the lock
        # too. The wait of some milliseconds is beside the next seal.
        _dropping.append(threading.Thread(target=held.clear))
        _dropping[-1].start()


with contextlib.suppress(RuntimeError):  # this module is imported again
    dist.register_rendezvous_handler(SCHEME, _rendezvous)
