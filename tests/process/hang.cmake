# SPDX-License-Identifier: Apache-2.0
add_library(step_clock MODULE step_clock.c)
target_link_libraries(step_clock PRIVATE mst_flags)
