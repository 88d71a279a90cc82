# SPDX-License-Identifier: Apache-2.0
add_library(core_fixture STATIC core_fixture.c failing_mem.c)
target_include_directories(core_fixture PUBLIC ${CMAKE_CURRENT_SOURCE_DIR})
target_link_libraries(core_fixture PUBLIC mst_core mst_flags PkgConfig::cmocka)

foreach(part key round member watch session)
    mst_test(${part}_test SOURCES ${part}_test.c LINK core_fixture mst_core mst_panic_abort)
endforeach()
