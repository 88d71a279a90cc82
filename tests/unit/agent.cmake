# SPDX-License-Identifier: Apache-2.0
mst_test(page_test SOURCES page_test.c LINK mst_process mst_panic_abort)
# Answers for the scheduler.
target_link_options(page_test PRIVATE -Wl,--wrap=syscall)
mst_test(socket_holder_test SOURCES socket_holder_test.c LINK mst_process mst_panic_abort)
mst_test(proc_stat_test SOURCES proc_stat_test.c LINK mst_process mst_panic_abort)
mst_test(death_test SOURCES death_test.c LINK mst_process mst_panic_abort)
mst_test(agent_process_test SOURCES agent_process_test.c ${CMAKE_SOURCE_DIR}/src/launch/process.c LINK mst_process mst_panic_abort)
mst_test(cause_test SOURCES cause_test.c LINK mst_launch mst_server muster_static mst_proto mst_base)
mst_test(output_test SOURCES output_test.c LINK mst_process)
mst_test(screen_test SOURCES screen_test.c LINK mst_process)
mst_test(error_file_test SOURCES error_file_test.c ${CMAKE_SOURCE_DIR}/src/launch/torch/error_file.c
    LINK mst_base mst_panic_abort PkgConfig::jansson)
mst_test(child_test SOURCES child_test.c LINK mst_process mst_panic_abort)
mst_test(spawn_test SOURCES spawn_test.c LINK mst_process)
mst_test(binding_test SOURCES binding_test.c LINK mst_process)
mst_test(keeper_test SOURCES keeper_test.c LINK mst_process mst_panic_abort)
mst_test(tagged_test SOURCES tagged_test.c LINK mst_process mst_driver mst_panic_abort)
mst_test(rendezvous_test SOURCES rendezvous_test.c LINK mst_net)
mst_test(elsewhere_test SOURCES elsewhere_test.c LINK mst_net mst_panic_abort)
mst_test(diagnose_test SOURCES diagnose_test.c LINK mst_hang mst_panic_abort)
mst_test(monitor_test SOURCES monitor_test.c LINK mst_hang mst_panic_abort)
foreach(test place_test masks_test)
    mst_test(${test} SOURCES ${test}.c library_stage.c LINK mst_launch mst_server muster_static mst_proto mst_base)
    add_dependencies(${test} muster_program)
    set_tests_properties(${test} PROPERTIES
        ENVIRONMENT "MUSTER_PROGRAM=$<TARGET_FILE:muster_program>;TSAN_OPTIONS=die_after_fork=0")
endforeach()
# Lacks what a process is started with, and hears keys from nobody: see the test.
target_link_options(place_test PRIVATE -Wl,--wrap=mst_spawn_tied,--wrap=mst_session_watch)
mst_test(masks_service_test SOURCES masks_service_test.c own_mask.c library_stage.c failing_mem.c
    LINK mst_launch mst_server muster_static mst_proto mst_base)
add_dependencies(masks_service_test muster_program)
set_tests_properties(masks_service_test PROPERTIES
    ENVIRONMENT "MUSTER_PROGRAM=$<TARGET_FILE:muster_program>;TSAN_OPTIONS=die_after_fork=0")
mst_test(waits_test SOURCES waits_test.c ${CMAKE_SOURCE_DIR}/src/launch/hang/waits.c ${CMAKE_SOURCE_DIR}/src/launch/hang/stall.c
    ${CMAKE_SOURCE_DIR}/src/client/shell/deliver.c
    LINK mst_hang mst_panic_abort)
# What an agent follows and says, with the test as its client and service.
foreach(test follow_test deliver_test)
    mst_test(${test} SOURCES ${test}.c fake_client.c ${CMAKE_SOURCE_DIR}/src/client/shell/follow.c
        ${CMAKE_SOURCE_DIR}/src/client/shell/deliver.c ${CMAKE_SOURCE_DIR}/src/launch/session.c
        ${CMAKE_SOURCE_DIR}/src/launch/process.c ${CMAKE_SOURCE_DIR}/src/launch/hang/stall.c
        ${CMAKE_SOURCE_DIR}/src/launch/hang/waits.c
        LINK mst_hang mst_process mst_proto mst_panic_abort)
endforeach()
