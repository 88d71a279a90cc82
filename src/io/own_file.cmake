# SPDX-License-Identifier: Apache-2.0
mst_library(mst_own_file SOURCES ${CMAKE_CURRENT_LIST_DIR}/own_file.c)
