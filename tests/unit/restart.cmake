# SPDX-License-Identifier: Apache-2.0
mst_test(restart_test SOURCES restart_test.c failing_mem.c LINK mst_restart mst_panic_abort)
mst_test(restart_together_test SOURCES restart_together_test.c failing_mem.c
    LINK mst_restart mst_panic_abort)
mst_test(interrupt_test
    SOURCES interrupt_test.c ${CMAKE_SOURCE_DIR}/src/lib/interrupt.c
    LINK mst_base mst_panic_abort Threads::Threads)
