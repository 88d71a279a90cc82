# SPDX-License-Identifier: Apache-2.0
mst_test(cluster_idle_test SOURCES cluster_idle_test.c failing_mem.c
    LINK mst_tasks mst_proto mst_base mst_panic_abort)
