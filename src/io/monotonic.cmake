# SPDX-License-Identifier: Apache-2.0
mst_library(mst_monotonic SOURCES ${CMAKE_CURRENT_LIST_DIR}/monotonic.c LINK Threads::Threads)
