# SPDX-License-Identifier: Apache-2.0
"""What the programs in Python that are tests themselves assert."""


def raised(kind, call, *words):
    """It raises this, with these words."""
    try:
        call()
    except kind as error:
        assert all(word in str(error) for word in words), error
    else:
        raise AssertionError(f"no {kind.__name__}: {words}")
