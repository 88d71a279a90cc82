# SPDX-License-Identifier: Apache-2.0
mst_library(mst_unix_peer SOURCES ${CMAKE_CURRENT_LIST_DIR}/unix_peer.c)
