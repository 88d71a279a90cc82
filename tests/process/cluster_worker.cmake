# SPDX-License-Identifier: Apache-2.0
add_executable(cluster_worker cluster_worker.c)
target_link_libraries(cluster_worker PRIVATE mst_flags muster Threads::Threads)
