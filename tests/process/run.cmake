# SPDX-License-Identifier: Apache-2.0
add_executable(run_rank run_rank.c)
target_link_libraries(run_rank PRIVATE mst_flags muster)
add_executable(run_worker run_worker.c)
target_link_libraries(run_worker PRIVATE mst_flags muster)
