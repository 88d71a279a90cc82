# SPDX-License-Identifier: Apache-2.0
if(TARGET muster_static AND TARGET muster_program)
    mst_test(library_cluster_test SOURCES library_cluster_test.c cluster_fake.c library_stage.c LINK muster_static)
    add_dependencies(library_cluster_test muster_program)
    mst_test(library_strangers_test SOURCES library_strangers_test.c cluster_fake.c library_stage.c LINK muster_static)
    add_dependencies(library_strangers_test muster_program)
    mst_test(worker_folder_test SOURCES worker_folder_test.c LINK muster_static)
    set_tests_properties(library_cluster_test library_strangers_test PROPERTIES
        ENVIRONMENT "MUSTER_PROGRAM=$<TARGET_FILE:muster_program>;TSAN_OPTIONS=die_after_fork=0"
        TIMEOUT 300)
endif()
