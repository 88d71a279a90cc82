if(TARGET muster_static)
    mst_test(error_test SOURCES error_test.c LINK muster_static)
    mst_test(assignment_try_test SOURCES assignment_try_test.c LINK muster_static)
    # The panic as a source: nothing here needs it before mst_base does.
    mst_test(endpoint_test SOURCES endpoint_test.c ${CMAKE_SOURCE_DIR}/src/base/panic_abort.c LINK mst_driver)
    mst_test(driver_test SOURCES driver_test.c failing_mem.c ${CMAKE_SOURCE_DIR}/src/base/panic_abort.c LINK mst_driver)
    # Looks up a name, and connects, in the system's place.
    foreach(function mst_lookup_start mst_lookup_fd mst_lookup_is_over mst_lookup_take mst_lookup_drop mst_endpoint_connect)
        target_link_options(driver_test PRIVATE -Wl,--wrap=${function})
    endforeach()
    mst_test(restart_options_test SOURCES restart_options_test.c LINK muster_static)
    mst_test(interrupt_test SOURCES interrupt_test.c LINK muster_static)
    mst_test(signals_test SOURCES signals_test.c LINK muster_static)
    # Is the client: what is posted stays open.
    mst_test(host_test SOURCES host_test.c LINK muster_static)
    target_link_options(host_test PRIVATE -Wl,--wrap=mst_lib_post,--wrap=mst_lib_post_cancel,--wrap=mst_lib_post_drop)
    find_package(Python3 REQUIRED COMPONENTS Interpreter)
    add_custom_command(
        OUTPUT ${CMAKE_CURRENT_BINARY_DIR}/null_calls.c
        COMMAND ${Python3_EXECUTABLE} ${CMAKE_CURRENT_SOURCE_DIR}/null_calls.py ${CMAKE_SOURCE_DIR}
            ${CMAKE_SOURCE_DIR}/tests/abi/symbols.txt ${CMAKE_CURRENT_BINARY_DIR}/null_calls.c
        DEPENDS null_calls.py ${CMAKE_SOURCE_DIR}/python/cdef.py ${CMAKE_SOURCE_DIR}/tests/abi/symbols.txt muster
        VERBATIM)
    mst_test(library_null_test SOURCES library_null_test.c ${CMAKE_CURRENT_BINARY_DIR}/null_calls.c LINK muster_static)
    target_include_directories(library_null_test PRIVATE ${CMAKE_CURRENT_SOURCE_DIR})
    add_test(NAME abi_initialisers_test COMMAND ${Python3_EXECUTABLE}
        ${CMAKE_SOURCE_DIR}/tests/abi/initialisers.py ${CMAKE_SOURCE_DIR})
    add_test(NAME abi_test COMMAND ${CMAKE_SOURCE_DIR}/tests/abi/check
        $<TARGET_FILE:muster> ${CMAKE_SOURCE_DIR}/tests/abi/symbols.txt)
endif()
if(TARGET muster_static AND TARGET muster_program)
    foreach(test library_test library_wait_test library_restart_test library_exit_test library_call_test library_dispatch_test
            library_wait_check_test library_callback_test
            library_service_test library_preempt_test library_heartbeat_test library_worker_test
            library_lost_test library_cancel_test library_fork_test library_page_test library_limit_test
            library_wake_test)
        mst_test(${test} SOURCES ${test}.c library_stage.c LINK muster_static)
        add_dependencies(${test} muster_program)
        set_tests_properties(${test} PROPERTIES
            ENVIRONMENT "MUSTER_PROGRAM=$<TARGET_FILE:muster_program>;TSAN_OPTIONS=die_after_fork=0"
            TIMEOUT 120)
    endforeach()
    # Holds the thread that stands in at a worker's loop where the system may: see the test.
    target_link_options(library_worker_test PRIVATE -Wl,--wrap=poll,--wrap=epoll_wait,--wrap=read)
    if(MUSTER_MEMCHECK)
        target_compile_definitions(library_heartbeat_test PRIVATE MST_TEST_MEMCHECK)
    endif()
    # Sees what the machine is told of an attempt.
    target_link_options(library_restart_test PRIVATE -Wl,--wrap=mst_restart_progress)
    # Holds a start that is nearly over.
    target_link_options(library_heartbeat_test PRIVATE -Wl,--wrap=pthread_once)
    target_compile_definitions(library_cancel_test PRIVATE MST_TEST_SYMBOLS="${CMAKE_SOURCE_DIR}/tests/abi/symbols.txt")
    # Has none left of what is opened or started.
    target_link_options(library_limit_test PRIVATE -Wl,--wrap=eventfd,--wrap=epoll_create1,--wrap=epoll_ctl
        -Wl,--wrap=socketpair,--wrap=timerfd_create,--wrap=fork,--wrap=pthread_create)
    # Fails a chosen allocation.
    target_link_options(library_dispatch_test PRIVATE -Wl,--wrap=malloc,--wrap=calloc,--wrap=realloc)
endif()
