# SPDX-License-Identifier: Apache-2.0
add_executable(cluster_driver cluster_driver.c)
target_link_libraries(cluster_driver PRIVATE mst_flags muster Threads::Threads)
