# SPDX-License-Identifier: Apache-2.0
# The progress page and the waiter for deaths: no libuv, because the rank's library has it too.
mst_library(mst_page
    SOURCES ${CMAKE_CURRENT_LIST_DIR}/short_slice.c ${CMAKE_CURRENT_LIST_DIR}/page.c
        ${CMAKE_CURRENT_LIST_DIR}/death.c ${CMAKE_CURRENT_LIST_DIR}/probe.c
    LINK mst_proc_stat mst_monotonic Threads::Threads)
