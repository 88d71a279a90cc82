# SPDX-License-Identifier: Apache-2.0
add_executable(register_client register_client.c)
target_link_libraries(register_client PRIVATE mst_flags muster)
