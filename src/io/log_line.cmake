# SPDX-License-Identifier: Apache-2.0
mst_library(mst_log_line SOURCES ${CMAKE_CURRENT_LIST_DIR}/log_line.c LINK mst_core mst_base)
