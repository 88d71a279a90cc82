# SPDX-License-Identifier: Apache-2.0
# What the kernel says of a process: the rank writes it into its page, and the agent compares.
mst_library(mst_proc_stat SOURCES ${CMAKE_CURRENT_LIST_DIR}/proc_stat.c LINK mst_base)
