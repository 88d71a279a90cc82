# SPDX-License-Identifier: Apache-2.0
"""What Wrapper raises, and what a program may raise for it."""

from ..._call import GiveUp

RestartAbort = GiveUp  # a BaseException: the run ends on all ranks


class RestartError(Exception):
    """What all others here are."""


class HealthCheckError(RestartError):
    """This process is unhealthy: the others go on without it. Its cause is what the check raised."""


class InternalError(RestartError):
    """A bug."""


class TimeoutError(RestartError):
    """Something of this process took too long."""
