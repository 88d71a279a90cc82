# SPDX-License-Identifier: Apache-2.0
add_executable(crowd crowd.c)
target_link_libraries(crowd PRIVATE mst_flags muster)
