# SPDX-License-Identifier: Apache-2.0
add_executable(hang_rank hang_rank.c events.c)
target_link_libraries(hang_rank PRIVATE mst_flags muster)
add_library(step_clock MODULE step_clock.c)
target_link_libraries(step_clock PRIVATE mst_flags)
add_executable(loop_rank loop_rank.c events.c)
target_link_libraries(loop_rank PRIVATE mst_flags muster Threads::Threads)
