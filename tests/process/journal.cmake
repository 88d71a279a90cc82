# SPDX-License-Identifier: Apache-2.0
# Counts the calls that a service makes to the disk: what --sync promises cannot be seen otherwise.
add_library(count_syncs MODULE count_syncs.c)
target_link_libraries(count_syncs PRIVATE mst_flags)
add_library(fail_disk MODULE fail_disk.c)
target_link_libraries(fail_disk PRIVATE mst_flags)
add_executable(put_lines put_lines.c)
target_link_libraries(put_lines PRIVATE mst_flags muster)
