# SPDX-License-Identifier: Apache-2.0
foreach(test cluster_worker_test cluster_worker_any_test)
    mst_test(${test} SOURCES ${test}.c cluster_shell.c failing_mem.c
        LINK mst_tasks_worker mst_proto mst_base mst_panic_abort)
endforeach()
mst_test(cluster_chaos_test SOURCES cluster_chaos_test.c cluster_world.c failing_mem.c
    LINK mst_tasks mst_tasks_worker mst_proto mst_base mst_panic_abort)
