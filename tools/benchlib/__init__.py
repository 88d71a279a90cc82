# SPDX-License-Identifier: Apache-2.0
"""The parts of tools/bench: figures and how they are judged (figures), the programs that are
measured (programs), a run and its pairs (run), and the measures by subject (traffic, keys,
restarts, preemption, closures, fronts)."""
