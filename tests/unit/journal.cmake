# SPDX-License-Identifier: Apache-2.0
foreach(test journal_test journal_full_test)
    mst_test(${test} SOURCES ${test}.c journal_stage.c journal_disk_fake.c failing_mem.c
        LINK mst_journal mst_panic_abort)
endforeach()
mst_test(replay_test SOURCES replay_test.c failing_mem.c LINK mst_journal mst_panic_abort)
mst_test(journal_folder_test SOURCES journal_folder_test.c failing_mem.c
    LINK mst_server mst_journal mst_panic_abort)
# Removes the folder where another process may, and cannot reserve: see the test.
target_link_options(journal_folder_test PRIVATE -Wl,--wrap=mst_own_file_open,--wrap=fallocate)
