# SPDX-License-Identifier: Apache-2.0
add_executable(cluster_chaos cluster_chaos.c)
target_link_libraries(cluster_chaos PRIVATE mst_flags muster Threads::Threads)
