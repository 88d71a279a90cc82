# SPDX-License-Identifier: Apache-2.0
mst_test(fronts_shell_test SOURCES fronts_shell_test.c library_stage.c LINK mst_fronts muster_static mst_proto mst_base)
add_dependencies(fronts_shell_test muster_program)
set_tests_properties(fronts_shell_test PROPERTIES
    ENVIRONMENT "MUSTER_PROGRAM=$<TARGET_FILE:muster_program>;TSAN_OPTIONS=die_after_fork=0")
mst_test(loopback_peer_test SOURCES loopback_peer_test.c LINK mst_net)
