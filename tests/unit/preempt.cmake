# SPDX-License-Identifier: Apache-2.0
mst_test(notice_test SOURCES notice_test.c LINK mst_proto mst_base mst_panic_abort)
foreach(test preempt_agree_test preempt_chaos_test preempt_slow_test)
    mst_test(${test} SOURCES ${test}.c preempt_stage.c core_service.c failing_mem.c
        LINK mst_core mst_preempt mst_proto mst_base mst_panic_abort)
endforeach()
mst_test(publish_test SOURCES publish_test.c core_service.c failing_mem.c
    LINK mst_core mst_preempt mst_proto mst_base mst_panic_abort)
