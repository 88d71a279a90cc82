# SPDX-License-Identifier: Apache-2.0
"""What interrupts the function."""

from ..._errors import Restart as RankShouldRestart

__all__ = ["RankShouldRestart"]
