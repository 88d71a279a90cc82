# SPDX-License-Identifier: Apache-2.0
add_executable(agent_rank agent_rank.c)
target_link_libraries(agent_rank PRIVATE mst_flags muster)
