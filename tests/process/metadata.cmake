# SPDX-License-Identifier: Apache-2.0
add_executable(tell_notices tell_notices.c ${CMAKE_SOURCE_DIR}/src/base/panic_abort.c)
target_link_libraries(tell_notices PRIVATE mst_flags mst_sources)
add_executable(training_rank training_rank.c)
target_link_libraries(training_rank PRIVATE mst_flags muster)
