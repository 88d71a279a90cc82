# SPDX-License-Identifier: Apache-2.0
# The user's runtime directory and the services in it. No libuv: programs without a loop use it too.
mst_library(mst_socket_dir SOURCES ${CMAKE_CURRENT_LIST_DIR}/socket_dir.c ${CMAKE_CURRENT_LIST_DIR}/elsewhere.c LINK mst_own_file mst_base)
