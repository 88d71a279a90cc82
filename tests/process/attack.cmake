# SPDX-License-Identifier: Apache-2.0
add_executable(attacked attacked.c)
target_link_libraries(attacked PRIVATE mst_flags muster)
add_library(fail_alloc MODULE fail_alloc.c)
target_link_libraries(fail_alloc PRIVATE mst_flags)
