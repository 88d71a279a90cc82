# SPDX-License-Identifier: Apache-2.0
foreach(test heartbeat_test heartbeat_together_test)
    mst_test(${test} SOURCES ${test}.c failing_mem.c LINK mst_heartbeat mst_panic_abort)
endforeach()
