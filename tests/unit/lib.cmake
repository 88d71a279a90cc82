if(TARGET muster_static)
    mst_test(error_test SOURCES error_test.c LINK muster_static)
    # The panic as a source: nothing here needs it before mst_base does.
    mst_test(endpoint_test SOURCES endpoint_test.c ${CMAKE_SOURCE_DIR}/src/base/panic_abort.c LINK mst_poll)
    add_test(NAME abi_test COMMAND ${CMAKE_SOURCE_DIR}/tests/abi/check
        $<TARGET_FILE:muster> ${CMAKE_SOURCE_DIR}/tests/abi/symbols.txt)
endif()
if(TARGET muster_static AND TARGET muster_program)
    foreach(test library_test library_wait_test)
        mst_test(${test} SOURCES ${test}.c library_stage.c LINK muster_static)
        add_dependencies(${test} muster_program)
        set_tests_properties(${test} PROPERTIES
            ENVIRONMENT "MUSTER_PROGRAM=$<TARGET_FILE:muster_program>;TSAN_OPTIONS=die_after_fork=0"
            TIMEOUT 120)
    endforeach()
endif()
