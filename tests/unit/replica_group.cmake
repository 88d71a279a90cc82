# SPDX-License-Identifier: Apache-2.0
foreach(name replica_test replica_snapshot_test)
    if(MUSTER_RAFT_FOUND)
        mst_test(${name} SOURCES ${name}.c replica_stage.c journal_disk_fake.c failing_mem.c
            LINK mst_replica mst_panic_abort)
    else()
        mst_test_without_raft(${name})
    endif()
endforeach()
