# SPDX-License-Identifier: Apache-2.0
"""After success, on spares too."""

from ._callback import Callback


class Completion(Callback):
    """A base for what is called when all ranks are done."""
