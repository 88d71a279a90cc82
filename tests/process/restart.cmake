# SPDX-License-Identifier: Apache-2.0
foreach(program restart_rank restart_refused)
    add_executable(${program} ${program}.c)
    target_link_libraries(${program} PRIVATE mst_flags muster)
endforeach()
