# SPDX-License-Identifier: Apache-2.0
# The journal's files. No libuv: the loop is told by a descriptor.
mst_library(mst_journal_disk SOURCES ${CMAKE_CURRENT_LIST_DIR}/journal_disk.c
    ${CMAKE_CURRENT_LIST_DIR}/journal_folder.c LINK mst_own_file mst_journal)
