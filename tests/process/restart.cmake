# SPDX-License-Identifier: Apache-2.0
foreach(program print_rank restart_refused restart_single)
    add_executable(${program} ${program}.c)
    target_link_libraries(${program} PRIVATE mst_flags muster Threads::Threads)
endforeach()
target_sources(restart_single PRIVATE rank/belongings.c)
