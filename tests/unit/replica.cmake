# SPDX-License-Identifier: Apache-2.0
mst_test(replica_log_test SOURCES replica_log_test.c journal_disk_fake.c failing_mem.c LINK mst_replica_log)
mst_test(replica_log_crash_test SOURCES replica_log_crash_test.c failing_mem.c ${CMAKE_SOURCE_DIR}/tests/sim/disk.c
    LINK mst_replica_log mst_panic_abort)
target_include_directories(replica_log_crash_test PRIVATE ${CMAKE_SOURCE_DIR}/tests/sim)
if(MUSTER_RAFT_FOUND)
    mst_test(replica_engine_test SOURCES replica_engine_test.c LINK mst_raft)
else()
    mst_test_without_raft(replica_engine_test)
endif()
