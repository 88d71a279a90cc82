# SPDX-License-Identifier: Apache-2.0
add_executable(soak_rank soak_rank.c)
target_link_libraries(soak_rank PRIVATE mst_flags muster)
