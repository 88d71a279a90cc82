# SPDX-License-Identifier: Apache-2.0
add_executable(heartbeat_rank heartbeat_rank.c)
target_link_libraries(heartbeat_rank PRIVATE mst_flags muster)
