# SPDX-License-Identifier: Apache-2.0
add_executable(schema_driver schema_driver.c)
target_link_libraries(schema_driver PRIVATE mst_proto mst_base mst_panic_abort mst_flags)
