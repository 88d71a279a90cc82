# SPDX-License-Identifier: Apache-2.0
mst_test(restart_test SOURCES restart_test.c failing_mem.c LINK mst_restart mst_panic_abort)
mst_test(hang_test SOURCES hang_test.c LINK mst_restart mst_panic_abort)
mst_test(restart_together_test SOURCES restart_together_test.c core_service.c failing_mem.c
    LINK mst_core mst_restart mst_panic_abort)
mst_test(restart_atomic_test SOURCES restart_atomic_test.c ${CMAKE_SOURCE_DIR}/src/restart/shell/atomic.c
    LINK mst_base mst_panic_abort Threads::Threads)
foreach(test assignment_test layers_test)
    mst_test(${test} SOURCES ${test}.c failing_mem.c LINK mst_restart mst_panic_abort)
endforeach()
foreach(test restart_rules_test restart_assign_test restart_lost_test restart_judge_test)
    mst_test(${test} SOURCES ${test}.c failing_mem.c LINK mst_restart mst_panic_abort)
endforeach()
