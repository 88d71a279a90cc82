# SPDX-License-Identifier: Apache-2.0
add_executable(run_worker run_worker.c)
target_link_libraries(run_worker PRIVATE mst_flags muster)
add_executable(plain plain.c)
target_link_libraries(plain PRIVATE mst_flags)
