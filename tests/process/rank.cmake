# SPDX-License-Identifier: Apache-2.0
# One program is every rank that tests start: the name that it is started by says which.
set(kinds agent calls fixed hang heartbeat journal loop pace preempt restart run save soak train)
list(TRANSFORM kinds APPEND .c OUTPUT_VARIABLE kind_sources)
list(TRANSFORM kind_sources PREPEND rank/)
add_executable(rank rank/main.c rank/orders.c rank/block.c rank/events.c rank/belongings.c ${kind_sources})
target_link_libraries(rank PRIVATE mst_flags muster Threads::Threads)
set_target_properties(rank PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_CURRENT_BINARY_DIR}/ranks)
foreach(kind ${kinds})
    add_custom_command(TARGET rank POST_BUILD
        COMMAND ${CMAKE_COMMAND} -E create_symlink rank ${CMAKE_CURRENT_BINARY_DIR}/ranks/${kind})
endforeach()
