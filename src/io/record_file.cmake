# SPDX-License-Identifier: Apache-2.0
# The files of a record, and the thread that writes them. No libuv: the loop never waits for it.
mst_library(mst_record_file SOURCES ${CMAKE_CURRENT_LIST_DIR}/record_file.c LINK mst_monotonic mst_journal Threads::Threads)
