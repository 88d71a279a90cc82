# SPDX-License-Identifier: Apache-2.0
add_executable(calls_rank calls_rank.c)
target_link_libraries(calls_rank PRIVATE mst_flags muster)
