# SPDX-License-Identifier: Apache-2.0
"""Several callables as one."""

from __future__ import annotations

import abc
from typing import Any, Callable

from ... import _state
from ._callback import Composable


class Compose(_state.Compose):
    """Compose(a, b, c)(state) is a(b(c(state))). It is of the class that its parts have in common."""

    def __new__(cls, *instances: Callable[..., Any]) -> Compose:
        of = type(instances[0]).__mro__ if instances else ()
        for kind in of:
            if (
                issubclass(kind, Composable)
                and not issubclass(kind, Compose)
                and all(isinstance(instance, kind) for instance in instances)
            ):
                both: Any = abc.ABCMeta(cls.__name__, (cls, kind), {})
                return object.__new__(both)  # type: ignore[no-any-return]
        return object.__new__(cls)
