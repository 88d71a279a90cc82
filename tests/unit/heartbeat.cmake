# SPDX-License-Identifier: Apache-2.0
mst_test(heartbeat_test SOURCES heartbeat_test.c failing_mem.c LINK mst_heartbeat mst_panic_abort)
mst_test(heartbeat_together_test SOURCES heartbeat_together_test.c core_service.c failing_mem.c
    LINK mst_core mst_heartbeat mst_panic_abort)
