# SPDX-License-Identifier: Apache-2.0
"""The names of other libraries, so that a program changes one import."""
