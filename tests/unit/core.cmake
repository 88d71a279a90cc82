# SPDX-License-Identifier: Apache-2.0
add_library(core_fixture STATIC core_fixture.c failing_mem.c)
target_include_directories(core_fixture PUBLIC ${CMAKE_CURRENT_SOURCE_DIR})
target_link_libraries(core_fixture PUBLIC mst_core mst_flags PkgConfig::cmocka)

mst_test(key_test SOURCES key_test.c LINK core_fixture mst_core mst_panic_abort)
mst_test(round_test SOURCES round_test.c LINK core_fixture mst_core mst_panic_abort)
mst_test(member_test SOURCES member_test.c LINK core_fixture mst_core mst_panic_abort)
mst_test(watch_test SOURCES watch_test.c LINK core_fixture mst_core mst_panic_abort)
mst_test(session_test SOURCES session_test.c LINK core_fixture mst_core mst_panic_abort)
mst_test(node_test SOURCES node_test.c LINK core_fixture mst_core mst_panic_abort)
add_library(history STATIC history.c)
target_include_directories(history PUBLIC ${CMAKE_CURRENT_SOURCE_DIR})
target_link_libraries(history PUBLIC mst_core mst_flags)

mst_test(snapshot_test SOURCES snapshot_test.c LINK history core_fixture message_generator mst_core mst_panic_abort)
mst_test(resume_test SOURCES resume_test.c LINK core_fixture mst_core mst_panic_abort)
