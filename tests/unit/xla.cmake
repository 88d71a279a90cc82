# SPDX-License-Identifier: Apache-2.0
add_library(xla_stage STATIC xla_stage.c core_service.c failing_mem.c)
target_link_libraries(xla_stage PUBLIC mst_core mst_xla mst_proto mst_base mst_panic_abort mst_flags PkgConfig::cmocka)
mst_test(xla_message_test SOURCES xla_message_test.c LINK mst_xla mst_proto mst_base mst_panic_abort)
mst_test(xla_test SOURCES xla_test.c LINK xla_stage)
mst_test(xla_hostile_test SOURCES xla_hostile_test.c LINK xla_stage)
