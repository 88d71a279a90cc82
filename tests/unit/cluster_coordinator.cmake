# SPDX-License-Identifier: Apache-2.0
foreach(test cluster_queue_test cluster_series_test cluster_fault_test cluster_poison_test cluster_retry_test cluster_value_test cluster_dismiss_test)
    mst_test(${test} SOURCES ${test}.c cluster_stage.c failing_mem.c
        LINK mst_tasks mst_proto mst_base mst_panic_abort)
endforeach()
