# SPDX-License-Identifier: Apache-2.0
# With which signals a program begins: the agent starts ranks, the library commands.
mst_library(mst_exec_signals SOURCES ${CMAKE_CURRENT_LIST_DIR}/exec_signals.c)
