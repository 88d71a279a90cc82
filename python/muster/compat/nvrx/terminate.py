# SPDX-License-Identifier: Apache-2.0
"""Where a run ends with an error."""

from ._callback import Callback


class Terminate(Callback):
    """A base for what is called on a process whose run ends with an error."""
