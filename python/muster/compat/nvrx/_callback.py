# SPDX-License-Identifier: Apache-2.0
"""What callables have in common. Wrapper takes any other callable of the state as well."""

import abc

from .state import FrozenState


class Composable(abc.ABC):
    """What is composed of these is one of these."""


class Callback(Composable):
    @abc.abstractmethod
    def __call__(self, state: FrozenState) -> FrozenState:
        """Returns the state, for the one that it is composed with."""
