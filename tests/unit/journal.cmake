# SPDX-License-Identifier: Apache-2.0
mst_test(journal_test SOURCES journal_test.c journal_disk_fake.c failing_mem.c
    LINK mst_journal mst_panic_abort)
