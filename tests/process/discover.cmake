# SPDX-License-Identifier: Apache-2.0
add_executable(discover_rank discover_rank.c)
target_link_libraries(discover_rank PRIVATE mst_flags muster)
