# SPDX-License-Identifier: Apache-2.0
mst_test(replica_message_test SOURCES replica_message_test.c replica_generator.c failing_mem.c
    LINK mst_replica_wire mst_panic_abort)
mst_test(replica_voters_test SOURCES replica_voters_test.c LINK mst_replica_wire mst_panic_abort)
mst_test(links_test SOURCES links_test.c failing_mem.c LINK mst_server mst_panic_abort)
