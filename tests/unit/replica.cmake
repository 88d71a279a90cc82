# SPDX-License-Identifier: Apache-2.0
if(MUSTER_RAFT_FOUND)
    mst_test(replica_engine_test SOURCES replica_engine_test.c LINK mst_raft)
else()
    mst_test_without_raft(replica_engine_test)
endif()
