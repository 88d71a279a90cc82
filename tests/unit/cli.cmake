# SPDX-License-Identifier: Apache-2.0
mst_test(schedule_test SOURCES schedule_test.c ${CMAKE_SOURCE_DIR}/src/cli/schedule.c LINK mst_base mst_panic_abort)
