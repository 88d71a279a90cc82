# SPDX-License-Identifier: Apache-2.0
if(MUSTER_RAFT_FOUND)
    mst_test(replica_test SOURCES replica_test.c replica_stage.c journal_disk_fake.c failing_mem.c
        LINK mst_replica mst_panic_abort)
else()
    mst_test_without_raft(replica_test)
endif()
