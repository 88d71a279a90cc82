# SPDX-License-Identifier: Apache-2.0
if(TARGET muster_static AND TARGET muster_program)
    mst_test(library_member_test SOURCES library_member_test.c library_stage.c LINK muster_static)
    add_dependencies(library_member_test muster_program)
    set_tests_properties(library_member_test PROPERTIES
        ENVIRONMENT "MUSTER_PROGRAM=$<TARGET_FILE:muster_program>;TSAN_OPTIONS=die_after_fork=0"
        TIMEOUT 120)
endif()
