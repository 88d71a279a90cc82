# SPDX-License-Identifier: Apache-2.0
if(TARGET muster_static AND TARGET muster_program)
    mst_test(library_cluster_test SOURCES library_cluster_test.c cluster_fake.c library_stage.c LINK muster_static)
    add_dependencies(library_cluster_test muster_program)
    # Comes between a refusal and the watch that follows it.
    target_link_options(library_cluster_test PRIVATE -Wl,--wrap=mst_lib_follow_after)
    mst_test(library_strangers_test SOURCES library_strangers_test.c cluster_fake.c library_stage.c LINK muster_static)
    add_dependencies(library_strangers_test muster_program)
    mst_test(library_dismiss_test SOURCES library_dismiss_test.c cluster_fake.c library_stage.c LINK muster_static)
    add_dependencies(library_dismiss_test muster_program)
    find_package(Python3 REQUIRED COMPONENTS Interpreter)
    add_custom_command(
        OUTPUT ${CMAKE_CURRENT_BINARY_DIR}/exported_calls.c
        COMMAND ${Python3_EXECUTABLE} ${CMAKE_CURRENT_SOURCE_DIR}/exported_calls.py ${CMAKE_SOURCE_DIR}
            ${CMAKE_CURRENT_BINARY_DIR}/exported_calls.c
        DEPENDS exported_calls.py null_calls.py ${CMAKE_SOURCE_DIR}/python/cdef.py muster
        VERBATIM)
    mst_test(library_waits_test SOURCES library_waits_test.c cluster_fake.c library_stage.c
        ${CMAKE_CURRENT_BINARY_DIR}/exported_calls.c LINK muster_static)
    target_include_directories(library_waits_test PRIVATE ${CMAKE_CURRENT_SOURCE_DIR})
    add_dependencies(library_waits_test muster_program)
    # Looks where the system blocks.
    target_link_options(library_waits_test PRIVATE -Wl,--wrap=poll,--wrap=ppoll,--wrap=epoll_wait
        -Wl,--wrap=pthread_cond_wait,--wrap=pthread_cond_timedwait,--wrap=flock)
    mst_test(library_closed_test SOURCES library_closed_test.c library_stage.c LINK muster_static)
    add_dependencies(library_closed_test muster_program)
    mst_test(worker_exec_test SOURCES worker_exec_test.c LINK muster_static)
    mst_test(folder_test SOURCES folder_test.c LINK muster_static)
    mst_test(own_pid_test SOURCES own_pid_test.c LINK muster_static)
    mst_test(worker_supervisor_test SOURCES worker_supervisor_test.c LINK muster_static)
    set_tests_properties(library_cluster_test library_strangers_test library_dismiss_test library_waits_test
        library_closed_test PROPERTIES
        ENVIRONMENT "MUSTER_PROGRAM=$<TARGET_FILE:muster_program>;TSAN_OPTIONS=die_after_fork=0"
        TIMEOUT 300)
endif()
