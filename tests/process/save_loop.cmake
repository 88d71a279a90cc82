# SPDX-License-Identifier: Apache-2.0
add_executable(save_loop save_loop.c)
target_link_libraries(save_loop PRIVATE mst_flags muster)
