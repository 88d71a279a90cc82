# SPDX-License-Identifier: Apache-2.0
"""Names of versions before 0.5; they are in rank_assignment."""

from .rank_assignment import ActiveWorldSizeDivisibleBy, MaxActiveWorldSize, RankFilter

WorldSizeDivisibleBy = ActiveWorldSizeDivisibleBy
__all__ = ["ActiveWorldSizeDivisibleBy", "MaxActiveWorldSize", "RankFilter", "WorldSizeDivisibleBy"]
