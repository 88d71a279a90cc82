# SPDX-License-Identifier: Apache-2.0
# Copies of what replies list: the library keeps them for its caller, the service for a reader.
mst_library(mst_items SOURCES ${CMAKE_CURRENT_LIST_DIR}/items.c LINK mst_msg mst_base)
