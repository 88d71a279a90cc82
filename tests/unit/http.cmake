# SPDX-License-Identifier: Apache-2.0
mst_test(counts_test SOURCES counts_test.c LINK core_fixture mst_core mst_panic_abort)
mst_test(metrics_test SOURCES metrics_test.c LINK mst_server mst_panic_abort)
mst_test(pressure_test SOURCES pressure_test.c ${CMAKE_SOURCE_DIR}/src/service/server/pressure.c
    LINK mst_base mst_panic_abort PkgConfig::libuv)
mst_test(http_test SOURCES http_test.c LINK mst_server mst_panic_abort)
mst_test(log_json_test SOURCES log_json_test.c LINK mst_server mst_panic_abort)
mst_test(http_places_test SOURCES http_places_test.c LINK mst_server mst_panic_abort)
