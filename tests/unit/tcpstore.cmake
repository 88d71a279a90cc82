# SPDX-License-Identifier: Apache-2.0
foreach(test tcpstore_test tcpstore_queue_test)
    mst_test(${test} SOURCES ${test}.c tcpstore_stage.c core_service.c failing_mem.c
        LINK mst_core mst_tcpstore mst_proto mst_base mst_panic_abort)
endforeach()
